// Symbolize prints the frames of addresses, as llvm-symbolizer does, to measure
// package dwarf alone.
//
//	symbolize FILE ADDRESSES
//
// ADDRESSES is a file of hexadecimal addresses, one a line, as the file was
// linked. For each it prints the functions, innermost first, with file, line and
// column, and an empty line.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/perfark/perfark/dwarf"
	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/objfile"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: symbolize FILE ADDRESSES")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "symbolize:", err)
		os.Exit(1)
	}
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
	d, err := f.DWARF(objfile.DWARFOptions{})
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(os.Stdout, 64<<10)
	var frames []dwarf.Frame
	for _, a := range addrs {
		if frames, err = d.Frames(a, frames[:0]); err != nil {
			return err
		}
		if len(frames) == 0 {
			w.WriteString("??\n??:0:0\n")
		}
		for i := range frames {
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
	var out []uint64
	for i, s := range strings.Fields(string(b)) {
		a, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: address %d: %w", name, i+1, err)
		}
		out = append(out, a)
	}
	return out, nil
}
