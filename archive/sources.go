package archive

import (
	"cmp"
	"context"
	"crypto/md5"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// Limits of the source files in an archive.
const (
	maxSourceFile  = 4 << 20   // bytes
	maxSourceFiles = 10_000    // files
	maxSourceBytes = 128 << 20 // of all together
)

// findSources adds the source files of the lines that samples are in, those
// with most samples first. Their recorded paths are all that ties them to the
// profile, and the checksum that debug information may have of them (DWARF 5);
// without one, files that are younger than the recording are left out.
func (pl *Plan) findSources(ctx context.Context) error {
	p := *pl.profile
	p.Objects, p.Locations = slices.Clone(p.Objects), slices.Clone(p.Locations)
	o := symbol.Options{Source: pl.o.Source, Workers: pl.workers(), Limits: pl.o.Limits, Lines: true, Inlines: true}
	var mu sync.Mutex
	sums := map[string][16]byte{}
	o.SourceSum = func(file string, sum [16]byte) {
		mu.Lock()
		defer mu.Unlock()
		sums[file] = sum
	}
	if _, err := symbol.Resolve(ctx, &p, o); err != nil {
		return err
	}
	hits := make([]uint64, len(p.Files))
	for i := range p.Samples {
		s := &p.Samples[i]
		var last int32 = profile.None
		for _, f := range p.FramesOf(&p.Locations[s.Location]) {
			if f.File != profile.None && f.File != last {
				hits[f.File] += s.Count
				last = f.File
			}
		}
	}
	var order []int
	for i, n := range hits {
		if n > 0 && IsSource(p.Files[i]) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(hits[b], hits[a]), cmp.Compare(p.Files[a], p.Files[b]))
	})
	total := int64(0)
	for _, i := range order[:min(len(order), maxSourceFiles)] {
		f, err := openFileOnly(p.Files[i])
		if err != nil {
			continue // annotate says that it has no text
		}
		// Archives have times in seconds.
		other := pl.o.Data != nil && !pl.o.Data.MTime.IsZero() && f.Info.ModTime().Truncate(time.Second).After(pl.o.Data.MTime)
		if want, known := sums[p.Files[i]]; known {
			h := md5.New()
			_, err := io.Copy(h, io.NewSectionReader(f, 0, min(f.Size, maxSourceFile)))
			other = err != nil || [16]byte(h.Sum(nil)) != want // it is another
		}
		if other || f.Size > maxSourceFile || total+f.Size > maxSourceBytes {
			f.Close()
			continue
		}
		it := &item{object: profile.None, path: path.Clean(p.Files[i]), samples: hits[i], extra: true, unverified: true}
		if pl.append(it, &part{kind: store.SourceText, file: f}) {
			total += f.Size
			pl.items = append(pl.items, it)
		}
	}
	return nil
}

// sourceExts are what names of source files end in.
var sourceExts = " .ads .adb .asm .c .c++ .cc .cl .cpp .cs .cu .cuh .cxx .d .def .f .f03 .f08 .f90 .for .go .h .h++ .hh .hpp .hs .hxx .i .inc .inl .ipp .java .jl .js" +
	" .kt .l .ll .m .ml .mm .nim .pas .pl .py .pyx .rs .s .scala .sx .swift .tcc .tpp .ts .vala .y .zig "

// IsSource reports whether a path looks like one of source code. Debug
// information may name any file of this host, and what is read of it goes
// elsewhere.
func IsSource(name string) bool {
	if !path.IsAbs(name) {
		return false
	}
	name = path.Clean(name)
	ext := strings.ToLower(path.Ext(name))
	if ext == "" {
		return strings.HasPrefix(name, "/usr/include/") // the headers of C++
	}
	return strings.Contains(sourceExts, " "+ext+" ")
}
