// Symbolize prints the frames of addresses, as llvm-symbolizer does, to measure
// package dwarf alone.
//
//	symbolize [-index DIR] FILE ADDRESSES
//
// ADDRESSES is a file of hexadecimal addresses, one a line, as the file was
// linked. For each it prints the functions, innermost first, with file, line and
// column, and an empty line. With -index it asks package symbol instead, which
// keeps in DIR what it finds out: no columns then.
package main

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/dwarf"
	"github.com/perfark/perfark/index"
	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

func main() {
	dir := flag.String("index", "", "keep an index in `dir`, and use it")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, "usage: symbolize [-index DIR] FILE ADDRESSES") }
	flag.Parse()
	if flag.NArg() != 2 {
		flag.Usage()
		os.Exit(2)
	}
	do := run
	if *dir != "" {
		do = func(name, list string) error { return indexed(*dir, name, list) }
	}
	if err := do(flag.Arg(0), flag.Arg(1)); err != nil {
		fmt.Fprintln(os.Stderr, "symbolize:", err)
		os.Exit(1)
	}
}

// A source has one file.
type source string

func (s source) Get(_ context.Context, k store.Key) (*store.File, error) {
	if k.Kind != store.ELF {
		return nil, fmt.Errorf("%s: %w", k, fs.ErrNotExist)
	}
	f, err := os.Open(string(s))
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &store.File{ReaderAt: f, Size: fi.Size(), Origin: string(s), Close: f.Close}, nil
}

// indexed resolves a profile of the addresses, as the report does.
func indexed(dir, name, list string) error {
	addrs, err := addresses(list)
	if err != nil {
		return err
	}
	sf, err := source(name).Get(context.Background(), store.Key{Kind: store.ELF})
	if err != nil {
		return err
	}
	defer sf.Close()
	f, err := objfile.Open(sf, sf.Size, name, nil)
	if err != nil {
		return err
	}
	p := &profile.Profile{
		Objects:   []profile.Object{{Path: name, BuildID: f.BuildID()}},
		Locations: make([]profile.Location, 0, len(addrs)),
		Samples:   make([]profile.Sample, 0, len(addrs)),
	}
	for i, a := range addrs {
		off, ok := f.FileOffset(a)
		if !ok {
			off = 0 // nothing is there
		}
		p.Locations = append(p.Locations, profile.Location{IP: a, Addr: off})
		p.Samples = append(p.Samples, profile.Sample{Location: int32(i), Stack: profile.None, Extra: profile.None})
	}
	cache := index.NewCache(dir, 0)
	if _, err := symbol.Resolve(context.Background(), p, symbol.Options{Source: source(name), Lines: true, Index: cache}); err != nil {
		return err
	}
	w := bufio.NewWriterSize(os.Stdout, 64<<10)
	for i := range p.Locations {
		frames := p.FramesOf(&p.Locations[i])
		if len(frames) == 0 {
			w.WriteString("??\n??:0\n")
		}
		for _, f := range frames {
			name, file := "??", "??"
			if f.Func != profile.None {
				name = escape.Name(p.Functions[f.Func].Name)
			}
			if f.File != profile.None {
				file = escape.Name(p.Files[f.File])
			}
			w.WriteString(name)
			w.WriteByte('\n')
			w.WriteString(file)
			w.WriteByte(':')
			w.WriteString(strconv.Itoa(int(f.Line)))
			w.WriteByte('\n')
		}
		w.WriteByte('\n')
	}
	return w.Flush()
}

func run(name, list string) error {
	// What lives long are decompressed sections, in which there is nothing to
	// look for: collecting often costs little.
	debug.SetGCPercent(10)
	addrs, err := addresses(list)
	if err != nil {
		return err
	}
	r, err := os.Open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	fi, err := r.Stat()
	if err != nil {
		return err
	}
	f, err := objfile.Open(r, fi.Size(), name, nil)
	if err != nil {
		return err
	}
	d, err := f.DWARF(objfile.DWARFOptions{CacheBytes: 24 << 20})
	if err != nil {
		return err
	}
	type question struct{ n, order int }
	todo := make([]question, len(addrs))
	for i, a := range addrs {
		todo[i] = question{i, d.Order(a)}
	}
	slices.SortFunc(todo, func(a, b question) int {
		return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(addrs[a.n], addrs[b.n]))
	})
	var frames []dwarf.Frame
	at := make([][2]int32, len(addrs))
	for _, q := range todo {
		first := len(frames)
		if frames, err = d.Frames(addrs[q.n], frames); err != nil {
			return err
		}
		at[q.n] = [2]int32{int32(first), int32(len(frames))}
	}
	d, f = nil, nil
	runtime.GC()
	debug.SetGCPercent(100)
	w := bufio.NewWriterSize(os.Stdout, 64<<10)
	for _, a := range at {
		if a[0] == a[1] {
			w.WriteString("??\n??:0:0\n")
		}
		for i := a[0]; i < a[1]; i++ {
			write(w, &frames[i])
		}
		w.WriteByte('\n')
	}
	return w.Flush()
}

func write(w *bufio.Writer, f *dwarf.Frame) {
	name := escape.Name(f.Name)
	if f.Linkage {
		name = escape.Name(objfile.Demangle(f.Name))
	}
	file := escape.Name(f.File)
	if name == "" {
		name = "??"
	}
	if file == "" {
		file = "??"
	}
	w.WriteString(name)
	w.WriteByte('\n')
	w.WriteString(file)
	w.WriteByte(':')
	w.WriteString(strconv.Itoa(f.Line))
	w.WriteByte(':')
	w.WriteString(strconv.Itoa(f.Column))
	w.WriteByte('\n')
}

// addresses reads the addresses in a file.
func addresses(name string) ([]uint64, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	text := string(b)
	out := make([]uint64, 0, strings.Count(text, "\n"))
	for s := range strings.FieldsSeq(text) {
		a, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: address %d: %w", name, len(out)+1, err)
		}
		out = append(out, a)
	}
	return out, nil
}
