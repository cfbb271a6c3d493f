package objfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/perfark/perfark/internal/decode"
)

// ErrRestricted says that a copy of /proc/kallsyms was made by somebody from
// whom the kernel hides addresses (kernel.kptr_restrict): all are zero.
var ErrRestricted = errors.New("kallsyms is restricted: all addresses are zero (sysctl kernel.kptr_restrict)")

// The most bytes that texts may have.
const (
	maxKallsyms = 256 << 20
	maxPerfMap  = 1 << 30
)

// Kallsyms is a copy of /proc/kallsyms: the symbols of a running kernel and
// its modules, at the addresses of that boot.
type Kallsyms struct {
	t     Table
	text  []byte            // with NUL bytes behind names and modules
	named map[string]uint64 // addresses; nil: they are looked for
}

// ReadKallsyms reads lines "address type name" and "address type
// name\t[module]", of which those of type T, W, D and B in either case are
// kept. A nil budget means the default limits. The error wraps ErrRestricted
// if the addresses are hidden.
func ReadKallsyms(r io.Reader, b *decode.Budget) (*Kallsyms, error) {
	if b == nil {
		b = decode.NewBudget(decode.Limits{})
	}
	text, err := readText(r, min(maxKallsyms, b.Left()), b, "kallsyms")
	if err != nil {
		return nil, err
	}
	return parseKallsyms(text, b)
}

// parseKallsyms is ReadKallsyms for a text, which it changes.
func parseKallsyms(text []byte, b *decode.Budget) (*Kallsyms, error) {
	n := bytes.Count(text, []byte{'\n'}) + 1
	if err := b.Alloc(int64(n)*24, "kallsyms: symbols"); err != nil {
		return nil, err
	}
	if uint64(len(text)) > math.MaxUint32 {
		return nil, fmt.Errorf("kallsyms: %d bytes, at most %d are allowed", len(text), maxKallsyms)
	}
	k := &Kallsyms{t: Table{syms: make([]symbol, 0, n), plain: true}, text: text}
	lines, hidden := 0, 0
	for at := 0; at < len(text); {
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			end = len(text)
		} else {
			end += at
		}
		s, ok := kallsymsLine(text, at, end)
		switch {
		case ok && s.start == 0:
			hidden++
		case ok && kallsymsType(text, s.name):
			k.t.syms = append(k.t.syms, s)
		}
		if ok {
			lines++
		}
		at = end + 1
	}
	switch {
	case lines == 0:
		return nil, fmt.Errorf("kallsyms: none of its lines has the form %q", "address type name")
	case hidden == lines:
		return nil, ErrRestricted
	case len(k.t.syms) == 0:
		return nil, fmt.Errorf("kallsyms: %w", ErrNoSymbols)
	}
	// Few of the names are asked for: they are copied then.
	k.t.tabs = []*stringTable{{r: bytes.NewReader(text), size: uint64(len(text)), budget: b}}
	sortSymbols(k.t.syms)
	k.fixEnds()
	k.t.link()
	return k, nil
}

// kallsymsLine decodes the line text[at:end]. It puts NUL bytes behind the
// name and the module, so that they are strings of a table.
func kallsymsLine(text []byte, at, end int) (symbol, bool) {
	var s symbol
	addr, n := hexDigits(text[at:end])
	p := at + n
	if n == 0 || p+3 >= end || text[p] != ' ' || text[p+2] != ' ' {
		return s, false
	}
	s.start, s.end, s.name = addr, addr, uint32(p+3)
	switch typ := text[p+1]; {
	case typ == 'W' || typ == 'w':
		s.flags = symWeak
	case 'A' <= typ && typ <= 'Z':
		s.flags = symGlobal
	}
	if end < len(text) {
		text[end] = 0
	}
	if i := bytes.IndexByte(text[p+3:end], '\t'); i >= 0 {
		text[p+3+i] = 0
		if p+3+i+1 < end && text[p+3+i+1] == '[' {
			s.flags |= symModule
		}
	}
	return s, true
}

// kallsymsType reports whether the symbol whose name is at name is kept. What
// begins with $ marks code and data in modules for a disassembler.
func kallsymsType(text []byte, name uint32) bool {
	return strings.IndexByte("TtWwDdBb", text[name-2]) >= 0 && text[name] != '$'
}

// hexDigits reads hex digits at the beginning of b, and returns their number too:
// 0 if there are none or they do not fit.
func hexDigits(b []byte) (v uint64, n int) {
	for ; n < len(b); n++ {
		c := b[n]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return v, n
		}
		if v>>60 != 0 {
			return 0, 0
		}
		v = v<<4 | uint64(c)
	}
	return v, n
}

// fixEnds gives the symbols, which have no size, an end: the start of the
// next one; but the end of the next page for the last of the kernel or of a module,
// as what follows is far away. Source: symbols__fixup_end,
// tools/perf/util/symbol.c.
func (k *Kallsyms) fixEnds() {
	const page = 4096
	for i := range k.t.syms {
		s := &k.t.syms[i]
		far := addClamp(s.start, 2*page-1) &^ (page - 1)
		if i+1 == len(k.t.syms) {
			s.end = far
			break
		}
		next := &k.t.syms[i+1]
		s.end = next.start
		if (s.flags|next.flags)&symModule != 0 && s.start != next.start && k.Module(i) != k.Module(i+1) {
			s.end = min(far, next.start)
		}
	}
}

// Module returns the module of symbol i without brackets; "" for the kernel.
func (k *Kallsyms) Module(i int) string {
	s := &k.t.syms[i]
	if s.flags&symModule == 0 {
		return ""
	}
	rest := k.text[s.name:]
	mod := cutNUL(rest[min(len(cutNUL(rest))+1, len(rest)):])
	return string(bytes.Trim(mod[:min(len(mod), 256)], "[]"))
}

// Len returns the number of symbols, aliases included.
func (k *Kallsyms) Len() int { return k.t.Len() }

// Lookup returns the symbol at an address of that boot and its module, ""
// for the kernel itself. Of several symbols at one address it is that which
// perf prefers, as in Table.Lookup.
func (k *Kallsyms) Lookup(addr uint64) (s Sym, module string, ok bool) {
	i, ok := k.t.Find(addr)
	if !ok {
		return Sym{}, "", false
	}
	return k.t.Sym(i), k.Module(i), true
}

// Find is Lookup for callers that look up many addresses: it returns the
// number of the symbol, for Sym and Module.
func (k *Kallsyms) Find(addr uint64) (i int, ok bool) { return k.t.Find(addr) }

// Sym returns symbol i.
func (k *Kallsyms) Sym(i int) Sym { return k.t.Sym(i) }

// Address returns the address of a symbol of the kernel. Perf records that
// of _text or _stext, its reference symbol: if it differs from the one here,
// the copy was made in another boot of the same kernel, and all of the
// kernel's symbols, but not its modules', are off by the difference.
func (k *Kallsyms) Address(name string) (uint64, bool) {
	if k.named != nil {
		at, ok := k.named[name]
		return at, ok
	}
	for i := range k.t.syms {
		s := &k.t.syms[i]
		rest := k.text[s.name:]
		if s.flags&symModule == 0 && bytes.HasPrefix(rest, []byte(name)) && (len(rest) == len(name) || rest[len(name)] == 0) {
			return s.start, true
		}
	}
	return 0, false
}

// cutNUL returns b up to its first NUL byte.
func cutNUL(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// readText reads all of r, at most limit bytes: at once if r knows its size,
// which is compared with what is there.
func readText(r io.Reader, limit int64, b *decode.Budget, what string) ([]byte, error) {
	s, ok := r.(*io.SectionReader)
	if !ok || s.Size() > limit {
		return readBounded(r, limit, b, what)
	}
	if n := s.Size(); n > 0 {
		// A file can be all holes, but a reader that promises too much ends early.
		if m, err := s.ReadAt(make([]byte, 1), n-1); m == 0 {
			return nil, fmt.Errorf("%s: offset %#x: %w", what, n-1, err)
		}
	}
	if err := b.Alloc(s.Size(), what); err != nil {
		return nil, err
	}
	text := make([]byte, s.Size())
	if n, err := s.ReadAt(text, 0); n < len(text) {
		return nil, fmt.Errorf("%s: offset %#x: %w", what, n, err)
	}
	return text, nil
}

// Modules returns the names of the modules that have symbols, in the order of
// their first symbol's address.
func (k *Kallsyms) Modules() []string {
	var out []string
	seen := map[string]bool{}
	for i := range k.t.syms {
		if m := k.Module(i); m != "" && !seen[m] {
			seen[m] = true
			out = append(out, m)
		}
	}
	return out
}
