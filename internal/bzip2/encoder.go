package bzip2

import (
	"bytes"
	"slices"
)

// Numbers of the format.
const (
	streamMagic = 0x425a6830 // "BZh0"; the level is added
	blockMagic  = 0x314159265359
	endMagic    = 0x177245385090
	groupSize   = 50 // symbols coded with one table
	maxTables   = 6
	maxCode     = 17  // bits; 20 are allowed, bzip2 itself makes no longer ones
	maxSymbols  = 258 // two for runs, 255 positions, one for the end
)

// An encoder turns blocks into streams. It keeps its memory from one to the
// next.
type encoder struct {
	bits
	sort     sorter
	last     []byte
	symbols  []uint16
	freq     [maxSymbols]int32
	used     [256]bool
	alphabet int // number of symbols in use
	tables   int
	lengths  [maxTables][maxSymbols]uint8
	selector []uint8
}

// stream appends a whole bzip2 stream to dst.
func (e *encoder) stream(dst []byte, b block) []byte {
	e.bits = bits{b: dst}
	e.put(uint64(streamMagic+b.level), 32)
	if len(b.data) > 0 {
		e.block(b)
	}
	e.put(endMagic, 48)
	if len(b.data) > 0 {
		e.put(uint64(b.crc), 32) // of the stream: that of its one block
	} else {
		e.put(0, 32)
	}
	return e.bits.end()
}

func (e *encoder) block(b block) {
	last, row := e.sort.transform(e.last[:0], b.data)
	e.last = last
	e.put(blockMagic, 48)
	e.put(uint64(b.crc), 32)
	e.put(0, 1) // not randomised
	e.put(uint64(row), 24)
	e.moveToFront(last)
	e.putUsed()
	e.chooseTables()
	e.putTables()
	e.putSymbols()
}

// moveToFront codes p as positions in a list of recently used bytes, and runs
// of position zero as numbers in bijective base two (symbols 0 and 1).
func (e *encoder) moveToFront(p []byte) {
	e.used = [256]bool{}
	for _, c := range p {
		e.used[c] = true
	}
	var list [256]byte
	n := 0
	for c, u := range e.used {
		if u {
			list[n] = byte(c)
			n++
		}
	}
	e.alphabet = n + 2
	e.freq = [maxSymbols]int32{}
	if cap(e.symbols) < len(p)+1 {
		e.symbols = make([]uint16, len(p)+1)
	}
	out := e.symbols[:cap(e.symbols)]
	k := 0
	run := 0
	front := list[0]
	for _, c := range p {
		if c == front {
			run++
			continue
		}
		for ; run > 0; run = (run - 1) / 2 {
			x := uint16(1 - run&1)
			out[k] = x
			k++
			e.freq[x]++
		}
		j := 1
		if list[1] == c {
			list[1] = front
		} else if list[2] == c {
			list[2] = list[1]
			list[1] = front
			j = 2
		} else {
			j = 3 + bytes.IndexByte(list[3:], c)
			copy(list[1:j+1], list[:j])
		}
		list[0] = c
		front = c
		out[k] = uint16(j + 1)
		k++
		e.freq[(j+1)%maxSymbols]++
	}
	for ; run > 0; run = (run - 1) / 2 {
		x := uint16(1 - run&1)
		out[k] = x
		k++
		e.freq[x]++
	}
	end := uint16(n + 1)
	out[k] = end
	e.freq[end]++
	e.symbols = out[:k+1]
}

// putUsed writes which bytes occur, as a map of maps.
func (e *encoder) putUsed() {
	var groups uint64
	var maps [16]uint64
	for c, u := range e.used {
		if u {
			groups |= 1 << (15 - c/16)
			maps[c/16] |= 1 << (15 - c%16)
		}
	}
	e.put(groups, 16)
	for _, m := range maps {
		if m != 0 {
			e.put(m, 16)
		}
	}
}

// chooseTables makes up to six Huffman tables, and chooses one for every
// group of symbols. It begins with a table for each of six ranges of symbols,
// and then four times gives every group the table that is best for it, and
// every table the frequencies of its groups.
func (e *encoder) chooseTables() {
	n := len(e.symbols)
	switch {
	case n < 200:
		e.tables = 2
	case n < 600:
		e.tables = 3
	case n < 1200:
		e.tables = 4
	case n < 2400:
		e.tables = 5
	default:
		e.tables = maxTables
	}
	from := 0
	rest := int32(n)
	for t := e.tables; t > 0; t-- {
		// Symbols from to to-1 make up a t-th of the rest.
		to := from
		sum := int32(0)
		for sum < rest/int32(t) && to < e.alphabet {
			sum += e.freq[to]
			to++
		}
		if to-from > 1 && t != e.tables && t != 1 && (e.tables-t)%2 == 1 {
			to--
			sum -= e.freq[to]
		}
		for s := range e.alphabet {
			e.lengths[t-1][s] = 15
			if s >= from && s < to {
				e.lengths[t-1][s] = 0
			}
		}
		from = to
		rest -= sum
	}
	groups := (n + groupSize - 1) / groupSize
	if cap(e.selector) < groups {
		e.selector = make([]uint8, groups)
	}
	e.selector = e.selector[:groups]
	for range 4 {
		e.refine()
	}
}

// refine chooses the table of each group by the lengths of the codes, and
// then makes the tables anew.
//
// The costs of a symbol under all six tables are ten bits each of one word:
// 50 symbols of at most 17 bits are less than 1024.
func (e *encoder) refine() {
	var cost [maxSymbols]uint64
	for s := range e.alphabet {
		for t := range e.tables {
			cost[s] |= uint64(e.lengths[t][s]) << (10 * t)
		}
	}
	var freq [maxTables][maxSymbols]int32
	symbols := e.symbols
	for g := range e.selector {
		group := symbols[:min(groupSize, len(symbols))]
		symbols = symbols[len(group):]
		var sum uint64
		for _, s := range group {
			sum += cost[s%512%maxSymbols]
		}
		best := 0
		least := sum & 1023
		for t := 1; t < e.tables; t++ {
			if c := sum >> (10 * t) & 1023; c < least {
				best, least = t, c
			}
		}
		e.selector[g] = uint8(best)
		f := &freq[best]
		for _, s := range group {
			f[s]++
		}
	}
	for t := range e.tables {
		codeLengths(e.lengths[t][:e.alphabet], freq[t][:e.alphabet])
	}
}

// putTables writes the choice of tables and the tables.
func (e *encoder) putTables() {
	e.put(uint64(e.tables), 3)
	e.put(uint64(len(e.selector)), 15)
	list := [maxTables]uint8{0, 1, 2, 3, 4, 5}
	for _, t := range e.selector {
		j := 0
		for list[j] != t {
			j++
		}
		copy(list[1:j+1], list[:j])
		list[0] = t
		e.put(1<<(j+1)-2, uint(j+1)) // j ones and a zero
	}
	for t := range e.tables {
		lengths := e.lengths[t][:e.alphabet]
		cur := lengths[0]
		e.put(uint64(cur), 5)
		for _, l := range lengths {
			for ; cur < l; cur++ {
				e.put(2, 2)
			}
			for ; cur > l; cur-- {
				e.put(3, 2)
			}
			e.put(0, 1)
		}
	}
}

// putSymbols writes the symbols in the code of the table of their group.
func (e *encoder) putSymbols() {
	// A code and its length in the low five bits.
	var codes [maxTables][maxSymbols]uint32
	for t := range e.tables {
		code := uint32(0)
		for l := uint8(1); l <= maxCode; l++ {
			for s, x := range e.lengths[t][:e.alphabet] {
				if x == l {
					codes[t][s] = code<<5 | uint32(l)
					code++
				}
			}
			code <<= 1
		}
	}
	b, acc, n := e.b, e.acc, e.n
	symbols := e.symbols
	for _, t := range e.selector {
		group := symbols[:min(groupSize, len(symbols))]
		symbols = symbols[len(group):]
		table := &codes[t]
		for _, s := range group {
			c := table[s]
			l := uint(c & 31)
			acc = acc<<l | uint64(c>>5)
			n += l
			if n >= 32 {
				n -= 32
				x := uint32(acc >> n)
				b = append(b, byte(x>>24), byte(x>>16), byte(x>>8), byte(x))
			}
		}
	}
	e.b, e.acc, e.n = b, acc, n
}

// codeLengths sets lengths to those of a Huffman code for the frequencies. A
// symbol that does not occur gets a code too. Where codes get longer than
// maxCode the frequencies are evened out.
func codeLengths(lengths []uint8, freq []int32) {
	n := len(freq)
	var leaves [maxSymbols]uint64 // weight and symbol
	var weight [2 * maxSymbols]uint64
	var parent [2 * maxSymbols]uint16
	var depth [2 * maxSymbols]uint8
	for shift := 0; ; shift++ {
		for s, f := range freq {
			leaves[s] = max(uint64(f)>>shift, 1)<<16 | uint64(s)
		}
		slices.Sort(leaves[:n])
		for i, l := range leaves[:n] {
			weight[i] = l >> 16
		}
		// Inner nodes arise in the order of their weights: two queues.
		leaf, inner := 0, n
		for k := n; k < 2*n-1; k++ {
			weight[k] = 0
			for range 2 {
				if leaf < n && (inner == k || weight[leaf] <= weight[inner]) {
					weight[k] += weight[leaf]
					parent[leaf] = uint16(k)
					leaf++
				} else {
					weight[k] += weight[inner]
					parent[inner] = uint16(k)
					inner++
				}
			}
		}
		depth[2*n-2] = 0
		deepest := uint8(0)
		for k := 2*n - 3; k >= 0; k-- {
			depth[k] = depth[parent[k]] + 1
			deepest = max(deepest, depth[k])
		}
		if deepest <= maxCode {
			break
		}
	}
	for i, l := range leaves[:n] {
		lengths[l&0xffff] = depth[i]
	}
}

// bits collects bits, the most significant one first.
type bits struct {
	b   []byte
	acc uint64
	n   uint // bits in acc, below 32
}

// put appends the low n bits of v, which has no others.
func (w *bits) put(v uint64, n uint) {
	if n > 32 {
		w.put(v>>32, n-32)
		v &= 1<<32 - 1
		n = 32
	}
	w.acc = w.acc<<n | v
	w.n += n
	if w.n >= 32 {
		w.n -= 32
		x := uint32(w.acc >> w.n)
		w.b = append(w.b, byte(x>>24), byte(x>>16), byte(x>>8), byte(x))
	}
}

// end returns the bytes; the last one is filled up with zeros.
func (w *bits) end() []byte {
	for ; w.n >= 8; w.n -= 8 {
		w.b = append(w.b, byte(w.acc>>(w.n-8)))
	}
	if w.n > 0 {
		w.b = append(w.b, byte(w.acc<<(8-w.n)))
	}
	return w.b
}
