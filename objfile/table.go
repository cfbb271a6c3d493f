package objfile

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"
)

// ErrNoSymbols says that a file has no symbol table, or none that names code.
var ErrNoSymbols = errors.New("no symbols")

// A Sym is a symbol.
type Sym struct {
	Name       string // as in the table: mangled, of any bytes
	Start, End uint64 // half-open
}

// A Table names addresses. It is safe for concurrent use.
//
// Names stay where they are in the string tables of the file, and are read
// when a Sym is asked for: the file must stay open as long as its Table is
// used.
type Table struct {
	syms     []symbol // sorted by start; equal ones in the order of the file
	tabs     []*stringTable
	parent   []int32 // see link
	plain    bool    // names are not mangled
	mu       sync.Mutex
	aliases  map[uint64]alias // by start
	compared int              // names of aliases compared, in units of nameUnit

	stubs *stubs            // of the functions of other objects; nil if there are none
	slots map[uint64]target // by address: what the dynamic linker puts there; nil if not asked for
	thumb map[uint64]bool   // where functions of Thumb code begin, if labels were asked for
	spans []span            // of symbols that were cut, see paint; nil if none were
}

// A symbol is a Sym in a table. Its name is the NUL-terminated string at name
// in table tab.
type symbol struct {
	start, end uint64
	name       uint32
	tab        uint8
	flags      symFlags
}

type symFlags uint8

const (
	symWeak     symFlags = 1 << iota
	symGlobal            // not local
	symSizeless          // the table gives no size; end is a limit until fixEnds
	symModule            // of a kernel module, whose name follows
)

// maxTables is how many string tables a Table can have.
const maxTables = 255

// maxName is the longest name looked at, in bytes. What is longer is cut.
const maxName = 1 << 20

// Len returns the number of symbols, aliases included, but not those of
// stubs, which are made when one is looked up.
func (t *Table) Len() int { return len(t.syms) }

// All calls yield for each symbol in order of address, until it returns
// false. Of several symbols at one address, all are given.
func (t *Table) All(yield func(Sym) bool) {
	for i := range t.syms {
		if !yield(t.Sym(i)) {
			return
		}
	}
}

// Sym returns symbol i: from 0 to Len()-1 in order of address, or what Find
// returned.
func (t *Table) Sym(i int) Sym {
	if i >= len(t.syms) {
		return t.stubs.t.Sym(i - len(t.syms))
	}
	s := &t.syms[i]
	if t.spans != nil {
		return Sym{t.tabs[s.tab].at(s.name, maxName), t.spans[i].start, t.spans[i].end}
	}
	return Sym{t.tabs[s.tab].at(s.name, maxName), s.start, s.end}
}

// Address returns where a symbol of that name starts, the first of several.
// It reads all names.
func (t *Table) Address(name string) (uint64, bool) {
	for _, tab := range t.tabs {
		tab.whole() // what cannot be read has no names
	}
	for i := range t.syms {
		s := &t.syms[i]
		if t.tabs[s.tab].at(s.name, len(name)+1) == name {
			return s.start, true
		}
	}
	return 0, false
}

// finish sorts the symbols and gives an end to those without a size.
func (t *Table) finish() {
	sortSymbols(t.syms)
	fixEnds(t.syms)
	t.link()
	t.aliases = nil
}

// fixEnds gives symbols without a size an end: the start of the next symbol,
// or the limit that stands in end. Of several at one address only the last
// can get one, as the next symbol of the others starts where they do; it is
// therefore the one that Lookup prefers.
func fixEnds(syms []symbol) {
	for i := range syms {
		s := &syms[i]
		if s.flags&symSizeless == 0 {
			continue
		}
		if i+1 < len(syms) {
			s.end = min(s.end, syms[i+1].start)
		}
		s.end = max(s.end, s.start)
	}
}

// link computes for each symbol the nearest one before it that ends after its
// start: the only ones that can hold an address in the gap behind a symbol. It
// makes Lookup fast where a hostile file has one symbol over all others. There
// is nothing to compute, and parent stays nil, where no symbols overlap.
func (t *Table) link() {
	overlap := false
	for i := 1; i < len(t.syms) && !overlap; i++ {
		overlap = t.syms[i-1].end > t.syms[i].start
	}
	if !overlap {
		return
	}
	t.parent = make([]int32, len(t.syms))
	stack := make([]int32, 0, 16)
	for i := range t.syms {
		for len(stack) > 0 && t.syms[stack[len(stack)-1]].end <= t.syms[i].start {
			stack = stack[:len(stack)-1]
		}
		t.parent[i] = -1
		if len(stack) > 0 {
			t.parent[i] = stack[len(stack)-1]
		}
		stack = append(stack, int32(i))
	}
}

// maxNesting is how many symbols Lookup looks at that lie around each other.
const maxNesting = 1 << 12

// Lookup returns the symbol that holds an address. Of several it is that with
// the greatest start, and of several with the same start that which perf
// prefers: one with a size, not weak, global, with fewer leading underscores,
// with a longer name. Between symbols nothing is found.
func (t *Table) Lookup(addr uint64) (Sym, bool) {
	i, ok := t.Find(addr)
	if !ok {
		return Sym{}, false
	}
	return t.Sym(i), true
}

// Find is Lookup for callers that look up many addresses: it returns the
// number of the symbol, the same for all its addresses, for Sym.
func (t *Table) Find(addr uint64) (i int, ok bool) {
	i, ok = t.find(addr)
	if ok && t.spans != nil {
		i = int(t.spans[i].first)
	}
	if t.stubs != nil {
		// A label at the beginning of the stubs, such as _MIPS_STUBS_, is of them
		// all.
		if j, stub := t.stubs.find(addr); stub {
			if start := t.stubs.t.syms[j].start; !ok || start > t.syms[i].start || start == t.syms[i].start && t.syms[i].flags&symSizeless != 0 {
				return len(t.syms) + j, true
			}
		}
	}
	return i, ok
}

func (t *Table) find(addr uint64) (int, bool) {
	n, _ := slices.BinarySearchFunc(t.syms, addr, func(s symbol, a uint64) int {
		if s.start <= a {
			return -1
		}
		return 1
	})
	i := n - 1
	for depth := 0; i >= 0 && t.syms[i].end <= addr; depth++ {
		if t.parent == nil || depth == maxNesting {
			return 0, false // nothing overlaps: what begins before ends before
		}
		i = int(t.parent[i])
	}
	if i < 0 {
		return 0, false
	}
	return t.best(i, addr), true
}

// Before returns the symbol that a disassembler names an address after: the
// last that starts at or before it, wherever it ends; the first of all if none
// does. Of several at one place
// it is the longest, then one that is global, then the first by name.
func (t *Table) Before(addr uint64) (Sym, bool) {
	if t.stubs != nil {
		if j, ok := t.stubs.find(addr); ok {
			if s := t.stubs.t.Sym(j); strings.HasSuffix(s.Name, "@plt") {
				return s, true
			}
		}
	}
	n, _ := slices.BinarySearchFunc(t.syms, addr, func(s symbol, a uint64) int {
		if s.start <= a {
			return -1
		}
		return 1
	})
	if n == 0 && len(t.syms) > 0 {
		for n < len(t.syms) && t.syms[n].start == t.syms[0].start && n < maxNesting {
			n++
		}
	}
	if n == 0 {
		return Sym{}, false
	}
	best := n - 1
	for i := n - 2; i >= 0 && t.syms[i].start == t.syms[best].start && n-i < maxNesting; i-- {
		if t.sooner(i, best) {
			best = i
		}
	}
	return t.Sym(best), true
}

// Slot returns the name of the symbol whose address the dynamic linker puts at
// an address, of a table with SymbolOptions.Labels.
func (t *Table) Slot(addr uint64) (name string, ok bool) {
	x, ok := t.slots[addr]
	if !ok {
		return "", false
	}
	name = x.symbol()
	return name, name != ""
}

// Thumb reports whether a function of Thumb code begins at an address, of a
// table with SymbolOptions.Labels.
func (t *Table) Thumb(addr uint64) bool { return t.thumb[addr] }

// sooner reports whether a disassembler prefers symbol i to j of the same
// place.
func (t *Table) sooner(i, j int) bool {
	key := func(s *symbol) (size uint64, global int) {
		if s.flags&symSizeless == 0 {
			size = s.end - s.start
		}
		if s.flags&(symGlobal|symWeak) == symGlobal {
			global = 1
		}
		return size, global
	}
	a, b := &t.syms[i], &t.syms[j]
	sizeA, globalA := key(a)
	sizeB, globalB := key(b)
	if c := cmp.Or(cmp.Compare(sizeA, sizeB), cmp.Compare(globalA, globalB)); c != 0 {
		return c > 0
	}
	return t.tabs[a.tab].at(a.name, maxName) < t.tabs[b.tab].at(b.name, maxName)
}

// An alias is the choice among the symbols that start at one address.
type alias struct {
	best    int32 // the one that perf keeps
	longest int32 // the best of those that end last, for addresses behind best
}

// maxCompared is how many names of aliases a Table looks at, long ones counted
// as several of nameUnit bytes. Linkers that fold equal functions make thousands
// of aliases, hostile files millions.
const (
	maxCompared = 50_000
	nameUnit    = 256
)

// best returns the best of the symbols that start where symbol i does and
// hold addr, as symbol i does.
func (t *Table) best(i int, addr uint64) int {
	if (i == 0 || t.syms[i-1].start != t.syms[i].start) && (i+1 == len(t.syms) || t.syms[i+1].start != t.syms[i].start) {
		return i
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	a, ok := t.aliases[t.syms[i].start]
	if !ok {
		a = t.choose(i)
		if t.aliases == nil {
			t.aliases = map[uint64]alias{}
		}
		t.aliases[t.syms[i].start] = a
	}
	if t.syms[a.best].end > addr {
		return int(a.best)
	}
	return int(a.longest)
}

// choose looks at all symbols that start where symbol i does.
func (t *Table) choose(i int) alias {
	lo := i
	for lo > 0 && t.syms[lo-1].start == t.syms[i].start {
		lo--
	}
	best, longest := lo, lo
	for j := lo + 1; j < len(t.syms) && t.syms[j].start == t.syms[i].start; j++ {
		if t.better(j, best) {
			best = j
		}
		if t.syms[j].end > t.syms[longest].end || t.syms[j].end == t.syms[longest].end && rank(&t.syms[j]) > rank(&t.syms[longest]) {
			longest = j
		}
	}
	return alias{int32(best), int32(longest)}
}

// rank orders symbols by what they are.
func rank(s *symbol) (r int) {
	if s.end > s.start {
		r |= 4
	}
	if s.flags&symWeak == 0 {
		r |= 2
	}
	if s.flags&symGlobal != 0 {
		r |= 1
	}
	return r
}

// better reports whether perf prefers symbol i to j, which comes before it.
func (t *Table) better(i, j int) bool {
	if ri, rj := rank(&t.syms[i]), rank(&t.syms[j]); ri != rj {
		return ri > rj
	}
	if t.compared >= maxCompared {
		return false
	}
	return t.compareNames(i, j) > 0
}

// compareNames is positive if the name of symbol i is better than that of j:
// fewer leading underscores, then longer, both as printed; at last, not one of
// the kernel's aliases of system calls.
// Source: choose_best_symbol, tools/perf/util/symbol.c.
func (t *Table) compareNames(i, j int) int {
	a, b := t.printed(i), t.printed(j)
	t.compared += 1 + (len(a)+len(b))/nameUnit
	if c := cmp.Compare(underscores(b), underscores(a)); c != 0 {
		return c
	}
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	if strings.HasPrefix(b, "SyS") || strings.HasPrefix(b, "compat_SyS") {
		return 1
	}
	return 0
}

// printed returns the beginning of the name of symbol i as it is printed.
func (t *Table) printed(i int) string {
	s := &t.syms[i]
	name := t.tabs[s.tab].at(s.name, 4096)
	if t.plain {
		return name
	}
	return Demangle(name)
}

func underscores(s string) int { return len(s) - len(strings.TrimLeft(s, "_")) }

// sortSymbols sorts by start and keeps the order of equal ones. Tables are
// large, and often in order already.
func sortSymbols(syms []symbol) {
	var or, last uint64
	sorted := true
	for i := range syms {
		or |= syms[i].start
		sorted = sorted && syms[i].start >= last
		last = syms[i].start
	}
	switch {
	case sorted:
	case len(syms) < 512:
		slices.SortStableFunc(syms, func(a, b symbol) int { return cmp.Compare(a.start, b.start) })
	default:
		radixSort(syms, or)
	}
}

// radixSort sorts by start, whose bits are all in or.
func radixSort(syms []symbol, or uint64) {
	const bits = 11
	from, to := syms, make([]symbol, len(syms))
	for shift := 0; shift < 64 && or>>shift != 0; shift += bits {
		if or>>shift&(1<<bits-1) == 0 {
			continue
		}
		var at [1 << bits]int
		for i := range from {
			at[from[i].start>>shift&(1<<bits-1)]++
		}
		sum := 0
		for i, n := range at {
			at[i] = sum
			sum += n
		}
		for i := range from {
			d := from[i].start >> shift & (1<<bits - 1)
			to[at[d]] = from[i]
			at[d]++
		}
		from, to = to, from
	}
	if &from[0] != &syms[0] {
		copy(syms, from)
	}
}

// addClamp returns a+b, or the largest value if that is less.
func addClamp(a, b uint64) uint64 {
	if a > math.MaxUint64-b {
		return math.MaxUint64
	}
	return a + b
}
