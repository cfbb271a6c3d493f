package objfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/perfark/perfark/internal/decode"
)

// ReadKallsymsFor is ReadKallsyms for callers that will look up the addresses
// of only, which are in ascending order, and by Address the given names: it
// keeps nothing else. A kernel has two hundred thousand symbols, of which a
// recording has some hundreds. Of a line beyond 64 KiB it has the beginning.
// The errors are those of ReadKallsyms.
func ReadKallsymsFor(r io.Reader, only []uint64, names []string, b *decode.Budget) (*Kallsyms, error) {
	if b == nil {
		b = decode.NewBudget(decode.Limits{})
	}
	limit := min(maxKallsyms, b.Left())
	p := kallsymsPick{only: only, names: names, named: map[string]uint64{}, budget: b}
	in := bufio.NewReaderSize(io.LimitReader(r, limit+1), 64<<10)
	for at := int64(0); ; {
		line, err := in.ReadSlice('\n')
		n := len(line)
		if perr := p.line(bytes.TrimSuffix(line, []byte{'\n'})); perr != nil {
			return nil, perr
		}
		for err == bufio.ErrBufferFull { // no name is as long
			line, err = in.ReadSlice('\n')
			n += len(line)
		}
		if at += int64(n); at > limit {
			return nil, &decode.LimitError{What: "kallsyms", Limit: limit, Want: at, Option: "--max-input-bytes"}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("kallsyms: offset %#x: %w", at, err)
		}
	}
	switch {
	case p.lines == 0:
		return nil, fmt.Errorf("kallsyms: none of its lines has the form %q", "address type name")
	case p.hidden == p.lines:
		return nil, ErrRestricted
	case p.kept == 0:
		return nil, fmt.Errorf("kallsyms: %w", ErrNoSymbols)
	}
	k, err := parseKallsyms(p.text(), b)
	if err != nil {
		return nil, err
	}
	k.named = p.named
	return k, nil
}

// A kallsymsPick picks the lines that answer for addresses: between two of
// them that are looked up, the last symbol is what the higher one is in, and
// the first is where that of the lower one ends. Symbols of modules are in no
// order.
type kallsymsPick struct {
	only   []uint64
	names  []string
	named  map[string]uint64
	budget *decode.Budget

	between []kallsymsBetween // by the index of the higher address
	now     int               // of the line before
	lo, hi  uint64            // what now stands for: lo < address <= hi

	lines, hidden, kept int
}

// A kallsymsBetween is the symbols behind one address, up to the next.
type kallsymsBetween struct {
	min, max    uint64
	first, last []byte // lines; of last those of all symbols at max
}

// line takes up a line.
func (p *kallsymsPick) line(line []byte) error {
	addr, n := hexWord(line)
	if n == 0 || n+3 >= len(line) || line[n] != ' ' || line[n+2] != ' ' {
		return nil
	}
	p.lines++
	if addr == 0 {
		p.hidden++
		return nil
	}
	if !kallsymsType(line, uint32(n+3)) {
		return nil
	}
	p.kept++
	p.name(addr, line[n+3:])
	if p.between == nil {
		if err := p.budget.Alloc(int64(len(p.only)+1)*64, "kallsyms: addresses"); err != nil {
			return err
		}
		p.between, p.lo, p.hi = make([]kallsymsBetween, len(p.only)+1), 1, 0
	}
	if addr <= p.lo || addr > p.hi {
		p.seek(addr)
	}
	x := &p.between[p.now]
	switch {
	case len(x.last) == 0:
		x.min, x.max = addr, addr
		x.first, x.last = appendLine(nil, line), appendLine(nil, line)
		return p.budget.Alloc(int64(2*len(line)), "kallsyms: symbols")
	case addr > x.max:
		x.max, x.last = addr, appendLine(x.last[:0], line)
		return nil
	case addr == x.max:
		x.last = appendLine(x.last, line)
		return p.budget.Alloc(int64(len(line))+1, "kallsyms: symbols")
	}
	if addr < x.min {
		x.min, x.first = addr, appendLine(x.first[:0], line)
	}
	return nil
}

func appendLine(b, line []byte) []byte { return append(append(b, line...), '\n') }

// seek finds where addr lies between the addresses.
func (p *kallsymsPick) seek(addr uint64) {
	i := p.now + 1 // most often
	if i >= len(p.only) || addr <= p.only[i-1] || addr > p.only[i] {
		i, _ = slices.BinarySearch(p.only, addr)
	}
	p.now, p.lo, p.hi = i, 0, ^uint64(0)
	if i > 0 {
		p.lo = p.only[i-1]
	}
	if i < len(p.only) {
		p.hi = p.only[i]
	}
}

// name notes the address of a symbol that Address will be asked for: see there.
func (p *kallsymsPick) name(addr uint64, rest []byte) {
	for _, name := range p.names {
		n := len(name) - 1
		if n < 0 || n >= len(rest) || rest[n] != name[n] || string(rest[:len(name)]) != name || len(rest) > len(name) && rest[len(name)] != '\t' && rest[len(name)] != 0 {
			continue
		}
		if i := bytes.IndexByte(rest, '\t'); i >= 0 && i+1 < len(rest) && rest[i+1] == '[' {
			continue // a module's
		}
		if at, ok := p.named[name]; !ok || addr < at {
			p.named[name] = addr
		}
	}
}

// text returns the lines that were picked.
func (p *kallsymsPick) text() []byte {
	var out []byte
	for i := range p.between {
		x := &p.between[i]
		if x.min != x.max {
			out = append(out, x.first...)
		}
		out = append(out, x.last...)
	}
	return out
}

// hexWord is hexDigits, quick where b begins with 16 digits, as the lines of
// kallsyms of 64 bits do.
func hexWord(b []byte) (v uint64, n int) {
	if len(b) > 16 && b[16] == ' ' {
		hi, ok := hexEight(b)
		lo, ok2 := hexEight(b[8:])
		if ok && ok2 {
			return hi<<32 | lo, 16
		}
	}
	return hexDigits(b)
}

// hexEight reads eight digits, of which the letters are small, all at once.
func hexEight(b []byte) (v uint64, ok bool) {
	const each = 0x0101010101010101
	x := binary.LittleEndian.Uint64(b)
	d := x&(0x0f*each) + x>>6&each*9
	letter := (d + 6*each) >> 4 & each
	if d&(0xf0*each) != 0 || d+'0'*each+letter*('a'-10-'0') != x {
		return 0, false
	}
	d = bits.ReverseBytes64(d)
	d = (d | d>>4) & 0x00ff00ff00ff00ff
	d = (d | d>>8) & 0x0000ffff0000ffff
	return (d | d>>16) & 0xffffffff, true
}
