package redact

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/perfark/perfark/perfdata"
)

// A Redactor knows the names in a recording and what stands in their place.
// It is for one goroutine, but what Source returns is for many.
type Redactor struct {
	f     *perfdata.File
	p     Policy
	dict  *dictionary
	names *names

	learnt map[learntKey]bool
	users  map[string]bool
	fields map[field]*fieldTexts
	bytes  map[field]int64 // names overwritten in binary data

	original map[string]string // redacted path → recorded path
	tracing  *perfdata.Tracing
	dec      *perfdata.Decoder

	dropped map[string]int64
	objects objectReports
}

// New reads a recording to its end and finds out what is to be replaced. f must
// stay open.
func New(ctx context.Context, f *perfdata.File, p Policy) (*Redactor, error) {
	p.fill()
	r := &Redactor{
		f: f, p: p, dict: newDictionary(p.Allow), names: newNames(p.Key),
		learnt: map[learntKey]bool{}, users: map[string]bool{}, fields: map[field]*fieldTexts{}, bytes: map[field]int64{},
		original: map[string]string{}, dropped: map[string]int64{},
	}
	for _, w := range p.Also {
		r.dict.add(word{old: w, kind: kindWord})
	}
	if p.Hosts == Mask {
		r.addHost(f.Hostname())
	}
	r.tracing, _ = f.Tracing() // what stands before a defect is enough
	var seen []string
	learn := func(s string, fl field) { r.learn(s, fl); seen = append(seen, s) }
	r.learnFeatures(learn)
	last := map[field]string{}
	err := r.records(ctx, func(rec []byte, at place) error {
		return r.texts(rec, at, func(s string, fl field) string {
			if last[fl] != s { // threads are named again and again
				last[fl] = s
				if !r.learnt[learntKey{fl, s}] {
					learn(s, fl)
				}
			}
			return s
		})
	})
	if err != nil {
		return nil, err
	}
	if p.Hosts == Mask {
		for _, h := range p.HostNames {
			r.addHost(h)
		}
	}
	if p.Users == Mask {
		for _, u := range p.UserNames {
			r.addUser(u, "")
		}
	}
	r.dict.forget(func(w *word) bool { return w.kind == kindSecret && r.public(seen, w.old) })
	all := strings.ToLower(strings.Join(seen, "\n"))
	r.names.used = func(p string) bool { return strings.Contains(all, p) }
	r.nameWords()
	return r, nil
}

// public reports whether a value that looked like a secret is part of the name of
// a file that is on many hosts: then it is none, and symbols would suffer.
func (r *Redactor) public(seen []string, s string) bool {
	for _, t := range seen {
		if strings.Contains(t, s) && strings.HasPrefix(t, "/") && r.systemPath(t) {
			return true
		}
	}
	return false
}

// Text returns a text for people, such as a message, without the names that
// are replaced.
func (r *Redactor) Text(s string) string { return r.dict.text(s) }

// A place is where a record stands.
type place struct {
	off    int64 // in its file
	stream int
}

// records calls visit for each record, in an order in which they can be
// written to one file. The record may be changed, and is valid during the call.
func (r *Redactor) records(ctx context.Context, visit func(rec []byte, at place) error) error {
	if r.f.Header().Dir {
		return r.ordered(visit)
	}
	batches := r.f.Batches(ctx)
	defer batches.Close()
	big := r.f.Header().Big
	for {
		b, err := batches.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if b.Bad != nil {
			r.dropped["damaged records"]++
			continue
		}
		for i := 0; i < len(b.Data); {
			_, _, size := perfdata.RecordHeader(b.Data[i:], big)
			if err := visit(b.Data[i:i+size:i+size], place{b.At(i), b.Stream}); err != nil {
				return err
			}
			i += size
		}
		b.Release()
	}
}

// ordered is records for a directory, whose files are merged by time.
func (r *Redactor) ordered(visit func(rec []byte, at place) error) error {
	o := r.f.Ordered(perfdata.OrderOptions{})
	defer o.Close()
	raws := make([]perfdata.Raw, 0, 256)
	for {
		list, err := o.NextRaw(raws[:0])
		for i := range list {
			x := &list[i]
			if x.Bad != nil {
				r.dropped["damaged records"]++
				continue
			}
			if err := visit(slices.Clone(x.Data), place{x.Offset, x.Stream}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// texts calls do for each text of a record.
func (r *Redactor) texts(rec []byte, at place, do func(string, field) string) error {
	typ, _, _ := perfdata.RecordHeader(rec, r.f.Header().Big)
	if !hasText(typ) && (typ != perfdata.RecordSample || r.tracing == nil) {
		return nil
	}
	if r.dec == nil {
		r.dec = perfdata.NewDecoder(r.f)
	}
	r.dec.Stream = at.stream
	v, err := r.dec.Decode(rec, at.off)
	if err != nil {
		return nil // it will be left out
	}
	if s, ok := v.(*perfdata.Sample); ok {
		for _, f := range r.rawTexts(s) {
			do(cString(s.Raw[f.Offset:f.Offset+f.Size]), fieldComm)
		}
		return nil
	}
	textsOf(v, do)
	return nil
}

// hasText reports whether records of a type have texts that are replaced as
// such.
func hasText(t perfdata.Type) bool {
	switch t {
	case perfdata.RecordMmap, perfdata.RecordMmap2, perfdata.RecordComm, perfdata.RecordKsymbol, perfdata.RecordCgroup,
		perfdata.RecordEventType, perfdata.RecordEventUpdate, perfdata.RecordBuildID, perfdata.RecordThreadMap,
		perfdata.RecordAuxtraceError, perfdata.RecordBPFMetadata:
		return true
	}
	return false
}

// textsOf replaces each text of a record by what do returns, and reports
// whether any changed.
func textsOf(v perfdata.Record, do func(string, field) string) (changed bool) {
	set := func(s *string, f field) {
		if new := do(*s, f); new != *s {
			*s, changed = new, true
		}
	}
	switch v := v.(type) {
	case *perfdata.Mmap:
		set(&v.Name, fieldPath)
	case *perfdata.Comm:
		set(&v.Name, fieldComm)
	case *perfdata.Ksymbol:
		set(&v.Name, fieldSymbol)
	case *perfdata.Cgroup:
		set(&v.Path, fieldCgroup)
	case *perfdata.EventType:
		set(&v.Name, fieldEvent)
	case *perfdata.EventUpdate:
		set(&v.Text, fieldEvent)
	case *perfdata.BuildIDRecord:
		set(&v.Name, fieldPath)
	case *perfdata.ThreadMap:
		for i := range v.Threads {
			set(&v.Threads[i].Comm, fieldComm)
		}
	case *perfdata.AuxtraceError:
		set(&v.Message, fieldMessage)
	case *perfdata.BPFMetadata:
		set(&v.Program, fieldSymbol)
		for i := range v.Entries {
			set(&v.Entries[i][1], fieldMessage)
		}
	}
	return changed
}

// rawTexts lists the fields of a sample of a tracepoint that are names.
func (r *Redactor) rawTexts(s *perfdata.Sample) []perfdata.TraceField {
	if s.Event < 0 || len(s.Raw) == 0 || r.tracing == nil {
		return nil
	}
	a := &r.f.Events()[s.Event].Attr
	if a.Type != perfdata.TypeTracepoint {
		return nil
	}
	t := r.tracing.Format(a.Config)
	if t == nil {
		return nil
	}
	var out []perfdata.TraceField
	for _, f := range t.Fields {
		if f.String && !f.Dynamic && !f.Relative && f.Size > 1 && f.Offset >= 0 && f.Size <= len(s.Raw) && f.Offset <= len(s.Raw)-f.Size {
			out = append(out, f)
		}
	}
	return out
}

func cString(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}

// A Report says what was replaced.
type Report struct {
	Fields  []FieldReport  `json:"fields"`
	Names   []Name         `json:"names"`             // in the order in which they were found
	Dropped []Dropped      `json:"dropped,omitempty"` // sorted
	Objects []ObjectReport `json:"objects,omitempty"` // files with names in them, sorted
}

// A FieldReport is what became of the texts of a field.
type FieldReport struct {
	Field    string   `json:"field"`
	Values   int      `json:"values"`   // distinct texts; 0 for binary data
	Replaced int      `json:"replaced"` // of these
	Places   int64    `json:"places"`   // records and the like in which a text was replaced, or names in binary data
	Changes  []Value  `json:"changes"`  // as they were found
	Kept     []string `json:"kept"`     // as they were found
}

// A Value is a text and what stands in its place.
type Value struct {
	Old string `json:"old"`
	New string `json:"new"`
}

// A Name is a name that is replaced everywhere.
type Name struct {
	Old    string `json:"old"`
	New    string `json:"new"`
	Common bool   `json:"common,omitempty"` // so short that it is replaced only in texts, where it stands alone
}

// Dropped is what was left out.
type Dropped struct {
	What  string `json:"what"`
	Count int64  `json:"count"`
}

// Report returns what was replaced until now. It holds the names themselves:
// it is for the user alone.
func (r *Redactor) Report() *Report {
	rep := &Report{Fields: []FieldReport{}, Names: []Name{}}
	for _, f := range fieldOrder {
		c, n := r.fields[f], r.bytes[f]
		if c == nil && n == 0 {
			continue
		}
		x := FieldReport{Field: string(f), Places: n, Changes: []Value{}, Kept: []string{}}
		if c != nil {
			x.Values = len(c.list)
			for _, t := range c.list {
				if t.old == t.new {
					x.Kept = append(x.Kept, t.old)
					continue
				}
				x.Replaced++
				x.Places += t.count
				x.Changes = append(x.Changes, Value{t.old, t.new})
			}
		}
		rep.Fields = append(rep.Fields, x)
	}
	for _, w := range r.dict.words {
		rep.Names = append(rep.Names, Name{w.old, w.new, w.textOnly})
	}
	for _, what := range slices.Sorted(maps.Keys(r.dropped)) {
		rep.Dropped = append(rep.Dropped, Dropped{what, r.dropped[what]})
	}
	rep.Objects = r.objects.list()
	return rep
}
