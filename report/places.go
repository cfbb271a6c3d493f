package report

import (
	"cmp"
	"math"
	"path"
	"slices"
	"strconv"

	"github.com/perfark/perfark/profile"
)

// Places are what rows and chains tell code apart by. Every location is a
// place of its own, with the number of the location: the machine code there.
// A location with inlined functions has more places, one for each of its
// frames; they follow the locations, those of one location side by side and
// innermost first.
type places struct {
	p        *profile.Profile
	inline   bool
	paths    bool       // of source files, not their names alone
	at       []placeRef // of the places behind the locations
	first    []int32    // by location: its first frame's place; nil if there are none at all
	dsos     []dsoRank  // by object, then for no object: in user space, in the kernel
	srclines []int32    // by place: rank of the text; nil until asked for
}

// A placeRef is a frame of a location.
type placeRef struct{ loc, frame int32 }

func newPlaces(p *profile.Profile, o *Options) *places {
	s := &places{p: p, inline: !o.NoInline, paths: o.SourcePaths}
	s.rankObjects(o.Restricted)
	if !s.inline {
		return s
	}
	n := 0
	for i := range p.Locations {
		if k := int(p.Locations[i].NFrames); k > 1 {
			n += k
		}
	}
	if n == 0 || len(p.Locations)+n > math.MaxInt32 {
		return s
	}
	s.at = make([]placeRef, 0, n)
	s.first = make([]int32, len(p.Locations))
	for i := range p.Locations {
		l := &p.Locations[i]
		if l.NFrames < 2 {
			s.first[i] = int32(i)
			continue
		}
		s.first[i] = int32(len(p.Locations) + len(s.at))
		for f := range int32(l.NFrames) {
			s.at = append(s.at, placeRef{int32(i), l.Frames + f})
		}
	}
	return s
}

// len returns the number of places.
func (s *places) len() int { return len(s.p.Locations) + len(s.at) }

// chain returns the first place of a location in a chain, innermost first, and
// how many there are.
func (s *places) chain(loc int32) (first, n int32) {
	if s.first == nil {
		return loc, 1
	}
	if f := s.first[loc]; f != loc {
		return f, int32(s.p.Locations[loc].NFrames)
	}
	return loc, 1
}

// location returns the location of a place.
func (s *places) location(place int32) *profile.Location {
	if n := place - int32(len(s.p.Locations)); n >= 0 {
		place = s.at[n].loc
	}
	return &s.p.Locations[place]
}

// function returns the function at a place, nil if there is none.
func (s *places) function(place int32) *profile.Function {
	f := profile.None + int32(0)
	if n := place - int32(len(s.p.Locations)); n >= 0 {
		f = s.p.Frames[s.at[n].frame].Func
	} else {
		f = s.p.Locations[place].Func
	}
	if f == profile.None {
		return nil
	}
	return &s.p.Functions[f]
}

// funcIndex is function as an index, profile.None if there is none.
func (s *places) funcIndex(place int32) int32 {
	if n := place - int32(len(s.p.Locations)); n >= 0 {
		return s.p.Frames[s.at[n].frame].Func
	}
	return s.p.Locations[place].Func
}

// inlined reports whether the function at a place is one that the compiler put
// into another.
func (s *places) inlined(place int32) bool {
	n := place - int32(len(s.p.Locations))
	if n < 0 {
		return false
	}
	r := s.at[n]
	l := &s.p.Locations[r.loc]
	return r.frame != l.Frames+int32(l.NFrames)-1
}

// line returns the source line of a place: that of the innermost frame for
// the machine code.
func (s *places) line(place int32) (file string, line int32) {
	var f *profile.Frame
	if n := place - int32(len(s.p.Locations)); n >= 0 {
		f = &s.p.Frames[s.at[n].frame]
	} else if l := &s.p.Locations[place]; l.NFrames > 0 {
		f = &s.p.Frames[l.Frames]
	}
	if f == nil || f.File == profile.None || f.Line == 0 {
		return "", 0
	}
	return s.p.Files[f.File], f.Line
}

// srcline returns what perf prints for the source line of a place: file and
// line; else the distance from the symbol's begin, behind its name if named;
// else the address in the object.
func (s *places) srcline(place int32, named bool) string {
	if file, line := s.line(place); file != "" {
		if !s.paths {
			file = path.Base(file)
		}
		return file + ":" + strconv.Itoa(int(line))
	}
	l := s.location(place)
	if f := s.function(place); f != nil {
		name := ""
		if named {
			name = f.Name
		}
		return name + "+" + strconv.FormatUint(l.Addr-f.Start, 10)
	}
	if l.Object == profile.None {
		return "??:0"
	}
	return s.dso(l).name + "[" + strconv.FormatUint(l.Addr, 16) + "]"
}

// rankSrclines numbers the source lines of the places in order.
func (s *places) rankSrclines() []int32 {
	if s.srclines == nil {
		texts := make([]string, s.len())
		for i := range texts {
			texts[i] = s.srcline(int32(i), true)
		}
		s.srclines = ranks(texts)
	}
	return s.srclines
}

// A dsoRank is the name of an object, and its place among them.
type dsoRank struct {
	name string
	rank int32
}

// rankObjects numbers the names of objects; what is no object comes last.
func (s *places) rankObjects(restricted bool) {
	n := len(s.p.Objects)
	names := make([]string, n)
	for i := range s.p.Objects {
		o := &s.p.Objects[i]
		names[i] = cmp.Or(o.Short, o.Path)
		if o.Kind == profile.KindUnnamed {
			names[i] = Unnamed
		}
	}
	s.dsos = make([]dsoRank, n+2)
	for i, r := range ranks(names) {
		s.dsos[i] = dsoRank{names[i], r}
	}
	s.dsos[n] = dsoRank{UnknownDSO, math.MaxInt32}
	s.dsos[n+1] = s.dsos[n]
	if restricted {
		s.dsos[n+1] = dsoRank{Restricted, math.MaxInt32 - 1}
	}
}

// dso returns the name and rank of the object of l.
func (s *places) dso(l *profile.Location) *dsoRank {
	n := len(s.p.Objects)
	switch {
	case l.Object != profile.None:
		return &s.dsos[l.Object]
	case l.Level == profile.LevelKernel:
		return &s.dsos[n+1]
	}
	return &s.dsos[n]
}

// ranks returns the place of each name among the different ones, in order.
func ranks(names []string) []int32 {
	sorted := slices.Clone(names)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	place := make(map[string]int32, len(sorted))
	for i, s := range sorted {
		place[s] = int32(i)
	}
	out := make([]int32, len(names))
	for i, s := range names {
		out[i] = place[s]
	}
	return out
}

// address returns the address of l that is printed if it has no name: that in
// the object, as perf has it; for a module the distance from its begin.
func address(p *profile.Profile, l *profile.Location) uint64 {
	if l.Object != profile.None {
		if o := &p.Objects[l.Object]; o.Kind == profile.KindModule {
			return l.Addr - o.Start
		}
	}
	return l.Addr
}

// A classes numbers places: what is equal has one number.
type classes struct {
	number map[class]int32
}

// A class is what makes places equal.
type class struct {
	what uint64 // of what: a name's number, an object
	addr uint64
}

// of returns the number of a class.
func (c *classes) of(k class) int32 {
	n, ok := c.number[k]
	if !ok {
		n = int32(len(c.number))
		c.number[k] = n
	}
	return n
}

// srcfile returns the source file of a place, "" if it is not known.
func (s *places) srcfile(place int32) string {
	file, _ := s.line(place)
	if file == "" {
		return ""
	}
	if s.paths {
		return file
	}
	return path.Base(file)
}
