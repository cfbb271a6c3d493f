// Command agree compares the disassembler with GNU objdump over the whole code
// of programs and libraries: where instructions begin, how they read, and what
// kinds of differences there are. It prints Markdown.
//
// The rows are those of the "Done when" of annotate: libc, libcrypto, perf, a
// Go and a Rust program, for x86-64 and arm64; and what else is here of other
// machines. What is absent is skipped with a notice. bench/inputs.sh gets the
// programs of arm64.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/disasm"
	"github.com/perfark/perfark/objfile"
)

// A row is one object whose code is compared.
type row struct {
	machine string   // as docs/annotate.md names it
	name    string   // what it is
	files   []string // where it may lie: the first that is there counts; $D is the directory of the inputs
	tools   []string // objdumps that read it
	args    []string // for objdump
	options disasm.Options
	others  bool // not one of "Done when"
}

var rows = slices.Concat(
	x86("libc", "/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6"),
	x86("libcrypto", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/usr/lib64/libcrypto.so.3"),
	x86("perf", "/usr/bin/perf"),
	x86("a Go program", "$D/bin/symbolize"),
	x86("a Rust program", "$D/bin/rustheavy"),
	foreign("arm64", "aarch64-linux-gnu", false, nil, disasm.Options{}),
	foreign("loong64", "loongarch64-linux-gnu", true, nil, disasm.Options{}),
	foreign("riscv64", "riscv64-linux-gnu", true, nil, disasm.Options{}),
	foreign("ppc64le", "powerpc64le-linux-gnu", true, nil, disasm.Options{}),
	foreign("s390x", "s390x-linux-gnu", true, nil, disasm.Options{Big: true}),
	foreign("arm", "arm-linux-gnueabihf", true, nil, disasm.Options{})[3:4],
	foreign("thumb", "arm-linux-gnueabihf", true, []string{"-M", "force-thumb"}, disasm.Options{Thumb: true})[:1],
)

// x86 returns the rows of an object of x86-64, in both syntaxes.
func x86(name string, files ...string) []row {
	tools := []string{"objdump", "x86_64-linux-gnu-objdump"}
	return []row{
		{machine: "x86-64", name: name, files: files, tools: tools},
		{machine: "x86-64", name: name + ", Intel's syntax", files: files, tools: tools, args: []string{"-M", "intel"}, options: disasm.Options{Intel: true}},
	}
}

// foreign returns the rows of another machine, from the packages that
// foreign.sh has fetched, and the C library of a cross compiler.
func foreign(machine, triplet string, others bool, args []string, o disasm.Options) []row {
	tools := []string{triplet + "-objdump", "objdump"}
	in := func(name string, files ...string) row {
		return row{machine: machine, name: name, files: files, tools: tools, args: args, options: o, others: others}
	}
	dir := "$D/" + machine
	return []row{
		in("libc", dir+"/lib/"+triplet+"/libc.so.6", dir+"/usr/lib/"+triplet+"/libc.so.6", "/usr/"+triplet+"/lib/libc.so.6"),
		in("libcrypto", dir+"/usr/lib/"+triplet+"/libcrypto.so.3"),
		in("perf", dir+"/usr/bin/perf"),
		in("a Go program", dir+"/bin/symbolize"),
		in("a Rust program", dir+"/usr/bin/rg"),
	}
}

func main() {
	dir := flag.String("dir", "bench/out", "`directory` of the inputs; make them with bench/inputs.sh and bench/foreign.sh")
	only := flag.String("run", "", "rows whose machine and name match this `regexp`")
	kinds := flag.Int("kinds", 8, "kinds of differences listed of each row: `number`")
	file := flag.String("file", "", "this `file` alone, of x86-64 or arm64, in place of the rows")
	examples := flag.Int("examples", 1, "examples of each kind: `number`")
	all := flag.Bool("all", false, "machines other than x86-64 and arm64, too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := agree(ctx, *dir, *only, *file, *kinds, *examples, *all); err != nil {
		fmt.Fprintln(os.Stderr, "agree:", err)
		os.Exit(1)
	}
}

func agree(ctx context.Context, dir, only, one string, kinds, examples int, all bool) error {
	want, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	fmt.Println("| machine | code of | instructions | begin as objdump's | read as objdump's |")
	fmt.Println("| --- | --- | ---: | ---: | ---: |")
	var notes []string
	compared := rows
	if one != "" {
		compared = nil
		for _, m := range []string{"x86-64", "arm64"} {
			for _, r := range rows {
				if r.machine == m && (r.name == "libc" || r.name == "libc, Intel's syntax") {
					r.name, r.files = strings.Replace(r.name, "libc", filepath.Base(one), 1), []string{one}
					compared = append(compared, r)
				}
			}
		}
	}
	for _, r := range compared {
		if r.others && !all || !want.MatchString(r.machine+" "+r.name) {
			continue
		}
		file := r.file(dir)
		tool := r.tool(ctx, file)
		switch {
		case file == "":
			fmt.Fprintf(os.Stderr, "agree: %s, %s: skipped, there is no %s\n", r.machine, r.name, strings.Join(r.files, ", nor "))
			continue
		case tool == "":
			fmt.Fprintf(os.Stderr, "agree: %s, %s: skipped, there is no GNU objdump that reads it: %s\n", r.machine, r.name, strings.Join(r.tools, ", "))
			continue
		}
		c, err := compare(ctx, r, file, tool, examples)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "agree: %s, %s: skipped: %v\n", r.machine, r.name, err)
			continue
		}
		fmt.Printf("| %s | %s | %d | %s | %s |\n", r.machine, r.name, c.total, percent(c.starts, c.total), percent(c.texts, c.total))
		if list := c.kinds(kinds); list != "" {
			notes = append(notes, fmt.Sprintf("%s, %s: %d differ:\n%s", r.machine, r.name, c.total-c.texts, list))
		}
	}
	for _, n := range notes {
		fmt.Print("\n", n)
	}
	return nil
}

// percent is exact in what it calls 100 %: one that differs makes it less.
func percent(n, of int) string {
	if n == of {
		return "100 %"
	}
	return fmt.Sprintf("%.4f %%", min(100*float64(n)/float64(max(of, 1)), 99.9999))
}

// file returns where the object is, or nothing.
func (r row) file(dir string) string {
	for _, f := range r.files {
		f = strings.Replace(f, "$D", dir, 1)
		if i, err := os.Stat(f); err == nil && i.Mode().IsRegular() {
			return f
		}
	}
	return ""
}

// tool returns a GNU objdump that knows the machine of the file, or nothing.
func (r row) tool(ctx context.Context, file string) string {
	for _, t := range r.tools {
		version, err := exec.CommandContext(ctx, t, "--version").Output()
		if err != nil || !strings.HasPrefix(string(version), "GNU objdump") {
			continue
		}
		header, err := exec.CommandContext(ctx, t, "-f", file).Output()
		if err == nil && strings.Contains(string(header), "architecture: ") && !strings.Contains(string(header), "architecture: UNKNOWN") {
			return t
		}
	}
	return ""
}

// A comparison counts what was the same.
type comparison struct {
	total, starts, texts int
	kind                 map[string]int
	example              map[string]string
	examples             int // of each kind
}

// printed is a line of objdump.
type printed struct {
	at   int // from the beginning of the section
	text string
}

var symbolic = regexp.MustCompile(` <[^>]*>`)

// compare reads the code of a file from one end to the other, and has objdump
// do the same.
func compare(ctx context.Context, r row, file, tool string, examples int) (comparison, error) {
	c := comparison{kind: map[string]int{}, example: map[string]string{}, examples: examples}
	f, err := os.Open(file)
	if err != nil {
		return c, err
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return c, err
	}
	o, err := objfile.Open(f, i.Size(), file, nil)
	if err != nil {
		return c, err
	}
	code, err := o.Section(".text")
	base, ok := o.SectionAddr(".text")
	if err != nil || !ok {
		return c, cmp.Or(err, errors.New(file+": no section .text"))
	}
	d, err := disasm.New(o.Machine(), o.Class(), r.options)
	if err != nil {
		return c, err
	}
	if n := d.Notice(); n != "" {
		fmt.Fprintln(os.Stderr, "agree:", n)
	}
	cmd := exec.CommandContext(ctx, tool, append(slices.Clone(r.args), "-d", "-z", "-j", ".text", "--no-show-raw-insn", file)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBUGINFOD_URLS=")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return c, err
	}
	if err := cmd.Start(); err != nil {
		return c, err
	}
	var theirs []printed
	var ends []int // where symbols begin: no instruction of objdump's reaches into the next
	for sc := bufio.NewScanner(out); sc.Scan(); {
		if addr, _, ok := strings.Cut(sc.Text(), " <"); ok && strings.HasSuffix(sc.Text(), ">:") {
			if a, err := strconv.ParseUint(addr, 16, 64); err == nil && a >= base && a-base < uint64(len(code)) {
				ends = append(ends, int(a-base))
			}
			continue
		}
		addr, text, ok := strings.Cut(sc.Text(), ":\t")
		a, err := strconv.ParseUint(strings.TrimSpace(addr), 16, 64)
		if !ok || err != nil || a < base || a-base >= uint64(len(code)) {
			continue
		}
		theirs = append(theirs, printed{int(a - base), strings.TrimRight(symbolic.ReplaceAllString(text, ""), " ")})
	}
	if err := cmd.Wait(); err != nil {
		return c, fmt.Errorf("%s: %w", tool, err)
	}
	decode := func(at int) disasm.Inst {
		for len(ends) > 0 && ends[0] <= at {
			ends = ends[1:]
		}
		end := len(code)
		if len(ends) > 0 {
			end = ends[0]
		}
		return d.Decode(code[at:end], base+uint64(at))
	}
	at := 0
	for i, w := range theirs {
		c.total++
		for at < w.at { // ours that begin where theirs do not
			at += decode(at).Len
		}
		in := decode(w.at)
		have := in.Format(func(uint64) string { return "" })
		end := len(code)
		if i+1 < len(theirs) {
			end = theirs[i+1].at
		}
		bytes := fmt.Sprintf("%x (% x)", base+uint64(w.at), code[w.at:min(end, w.at+16)])
		if w.at+in.Len != end {
			c.differ("of another length", fmt.Sprintf("%s: %q of %d bytes, objdump: %q", bytes, have, in.Len, w.text))
		}
		switch {
		case at != w.at:
			c.differ("begins elsewhere", fmt.Sprintf("%s: %q", bytes, w.text))
			continue
		case have == w.text:
			c.texts++
		default:
			c.differ(kindOf(have, w.text), fmt.Sprintf("%s: %q, objdump: %q", bytes, have, w.text))
		}
		c.starts++
		at += in.Len
	}
	if c.total == 0 {
		return c, errors.New(tool + ": prints no instructions")
	}
	return c, nil
}

func (c *comparison) differ(kind, example string) {
	if c.kind[kind]++; c.kind[kind] <= c.examples {
		c.example[kind] += "\n  " + example
	}
}

// kindOf names a difference by the operations.
func kindOf(have, want string) string {
	h, w := strings.Fields(have), strings.Fields(want)
	if len(h) == 0 || len(w) == 0 {
		return "empty"
	}
	if h[0] != w[0] {
		return h[0] + " for " + w[0]
	}
	return h[0]
}

// kinds lists the commonest kinds of differences, and one of each.
func (c *comparison) kinds(most int) string {
	var names []string
	for k := range c.kind {
		names = append(names, k)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(c.kind[b], c.kind[a]), cmp.Compare(a, b)) })
	var out strings.Builder
	for i, k := range names {
		if i == most {
			fmt.Fprintf(&out, "* and %d kinds more\n", len(names)-i)
			break
		}
		fmt.Fprintf(&out, "* %d × %s:%s\n", c.kind[k], k, c.example[k])
	}
	return out.String()
}
