// Package inflate decompresses zlib data whose decompressed size is known, as
// that of compressed sections of ELF files is. It writes into one slice, in which
// it finds what it has to repeat too, and so is much faster than a reader that
// keeps a window.
//
// Anything may be in the data: it fails unless they give exactly the bytes of
// the slice with the right checksum.
//
// Source: RFC 1950 (zlib), RFC 1951 (deflate).
package inflate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"math/bits"
)

// ErrCorrupt says that the data are not zlib data, or damaged.
var ErrCorrupt = errors.New("corrupt zlib data")

// ErrSize says that the data hold more or fewer bytes than wanted.
var ErrSize = errors.New("wrong size")

// inputSize is how much of the input is read at a time, in bytes.
const inputSize = 256 << 10

// Zlib decompresses r, which must give exactly the bytes of dst. What is in
// dst after an error has no meaning. The error wraps ErrCorrupt, ErrSize,
// io.ErrUnexpectedEOF or is that of r. Bytes behind the data are left alone.
func Zlib(dst []byte, r io.Reader) error {
	d := &decoder{r: r, dst: dst, buf: make([]byte, inputSize)}
	d.header()
	for last := false; !last && d.err == nil; {
		last = d.next()
	}
	if d.err != nil {
		return d.err
	}
	if d.w != len(dst) {
		return fmt.Errorf("%w: %d bytes, want %d", ErrSize, d.w, len(dst))
	}
	if want := d.checksum(); d.err == nil && adler32.Checksum(dst) != want {
		d.mismatch(adler32.Checksum(dst), want)
	}
	return d.err
}

// header reads the header of the data.
func (d *decoder) header() {
	head := d.bits(16)
	cmf, flg := head&0xff, head>>8
	if d.err == nil && (cmf&0x0f != 8 || cmf>>4 > 7 || (cmf<<8|flg)%31 != 0 || flg&0x20 != 0) {
		d.fail("header %#04x", head)
	}
}

// next decompresses a block. It reports whether it is the last one.
func (d *decoder) next() (last bool) {
	last = d.bits(1) != 0
	switch kind := d.bits(2); {
	case d.err != nil:
	case kind == 0:
		d.stored()
	case kind == 1:
		d.fixed()
	case kind == 2:
		d.dynamic()
	default:
		d.fail("block of type 3")
	}
	return last
}

// checksum reads the checksum behind the last block.
func (d *decoder) checksum() uint32 {
	d.drop(d.n & 7)
	var sum [4]byte
	for i := range sum {
		sum[i] = byte(d.bits(8))
	}
	return binary.BigEndian.Uint32(sum[:])
}

func (d *decoder) mismatch(got, want uint32) { d.fail("checksum %08x, want %08x", got, want) }

// A decoder holds the state of one decompression.
type decoder struct {
	r   io.Reader
	buf []byte // input
	in  []byte // what is unread of buf
	eof error  // what r said at its end
	err error

	acc uint64 // bits read ahead, the next one lowest
	n   uint   // how many

	dst []byte
	w   int // bytes written

	lit  [litSize]entry
	dist [distSize]entry
	lens [maxLit + maxDist]uint8
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
	}
}

// more reads more input behind what is unread. It reports whether there is
// some.
func (d *decoder) more() bool {
	if d.eof != nil {
		return false
	}
	k := copy(d.buf, d.in)
	for {
		m, err := d.r.Read(d.buf[k:])
		d.in = d.buf[:k+m]
		if err != nil {
			d.eof = err
		}
		if m > 0 || err != nil {
			return m > 0
		}
	}
}

// need makes sure that k bits are read ahead, or as many as there are.
func (d *decoder) need(k uint) {
	for d.n < k {
		if len(d.in) == 0 && !d.more() {
			return
		}
		d.acc |= uint64(d.in[0]) << d.n
		d.in = d.in[1:]
		d.n += 8
	}
}

func (d *decoder) drop(k uint) {
	d.acc >>= k
	d.n -= k
}

// bits reads k bits.
func (d *decoder) bits(k uint) uint {
	d.need(k)
	if d.n < k {
		d.cut()
		return 0
	}
	v := uint(d.acc & (1<<k - 1))
	d.drop(k)
	return v
}

// cut records that the input ended.
func (d *decoder) cut() {
	if d.err != nil {
		return
	}
	if d.err = d.eof; d.err == nil || d.err == io.EOF {
		d.err = io.ErrUnexpectedEOF
	}
}

// stored copies a block that is not compressed.
func (d *decoder) stored() {
	d.drop(d.n & 7)
	n, not := d.bits(16), d.bits(16)
	if d.err != nil {
		return
	}
	if n != ^not&0xffff {
		d.fail("stored block of %#04x bytes, or %#04x", n, ^not&0xffff)
		return
	}
	if int(n) > len(d.dst)-d.w {
		d.tooLong()
		return
	}
	for ; n > 0 && d.n > 0; n-- {
		d.dst[d.w] = byte(d.bits(8))
		d.w++
	}
	for n > 0 {
		if len(d.in) == 0 && !d.more() {
			d.cut()
			return
		}
		k := copy(d.dst[d.w:d.w+int(n)], d.in)
		d.in = d.in[k:]
		d.w += k
		n -= uint(k)
	}
}

func (d *decoder) tooLong() {
	if d.err == nil {
		d.err = fmt.Errorf("%w: more than %d bytes", ErrSize, len(d.dst))
	}
}

// An entry of a table says what begins with some bits:
//
//	bits 0–5   how many bits it takes in all
//	bits 8–11  how many of them are its code; the others are added to the value
//	bits 12–15 what it is
//	bits 16–31 the value: a literal, the base of a length or distance, or where
//	           the second table begins
//
// An entry of the first table that points to a second one has in bits 0–5 the
// bits of its index, and in bits 8–11 those of the first.
type entry uint32

const (
	isLiteral entry = 1 << 12
	isSub     entry = 1 << 13
	isEnd     entry = 1 << 14
	isBad     entry = 1 << 15
	isOther         = isSub | isEnd | isBad
)

// Sizes of the tables: the first, and room for all second ones that codes of 15
// bits can need (as zlib's enough.c computes it for 288 and 32 symbols).
const (
	litBits  = 11
	distBits = 9
	litSize  = 2342 + 64
	distSize = 594 + 64

	maxLit  = 288
	maxDist = 32
)

// Base and extra bits of lengths, from symbol 257, and of distances.
var (
	lenBase   = [31]uint16{3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258}
	lenExtra  = [31]uint8{0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0}
	distBase  = [32]uint16{1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577}
	distExtra = [32]uint8{0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13}
)

func litEntry(sym int) (e entry, extra uint8) {
	switch {
	case sym < 256:
		return isLiteral | entry(sym)<<16, 0
	case sym == 256:
		return isEnd, 0
	case sym < 286:
		return entry(lenBase[sym-257]) << 16, lenExtra[sym-257]
	}
	return isBad, 0
}

func distEntry(sym int) (e entry, extra uint8) {
	if sym >= 30 {
		return isBad, 0
	}
	return entry(distBase[sym]) << 16, distExtra[sym]
}

// build makes a table of codes of the given lengths. It reports whether they
// make sense: no code is the beginning of another one, and no bits are without
// a code, but that a single code may have one bit.
func build(table []entry, first uint, lens []uint8, sym func(int) (entry, uint8)) bool {
	var count, next [17]int
	used := 0
	for _, n := range lens {
		if n > 0 {
			count[n]++
			used++
		}
	}
	code, left := 0, 1
	for n := 1; n <= 15; n++ {
		left = left<<1 - count[n]
		if left < 0 {
			return false
		}
		next[n] = code
		code = (code + count[n]) << 1
	}
	if left > 0 && (used > 1 || used == 1 && count[1] != 1) {
		return false
	}
	if left > 0 {
		for i := range table[:1<<first] {
			table[i] = isBad
		}
	}
	// The second tables come behind the first. Codes come in order of length,
	// and of those with one beginning the longest decides how large theirs is.
	end := 1 << first
	var order [maxLit]uint16
	{
		var at [17]int
		for n := 1; n < 16; n++ {
			at[n+1] = at[n] + count[n]
		}
		for i, n := range lens {
			if n > 0 {
				order[at[n]] = uint16(i)
				at[n]++
			}
		}
	}
	prefix, subAt, subBits := -1, 0, uint(0)
	for k := range used {
		i := int(order[k])
		n := uint(lens[i])
		c := next[n]
		next[n]++
		rev := int(bits.Reverse16(uint16(c)) >> (16 - n))
		e, extra := sym(i)
		if n <= first {
			e |= entry(n)<<8 | entry(n+uint(extra))
			for j := rev; j < 1<<first; j += 1 << n {
				table[j] = e
			}
			continue
		}
		if p := rev & (1<<first - 1); p != prefix {
			// How long are the codes with this beginning? Codes are consecutive
			// numbers, so count until they fill what is below the beginning.
			prefix = p
			subBits = n - first
			for room := 1<<subBits - (count[n] - (c - firstCode(count[:], int(n)))); room > 0 && subBits+first < 15; {
				subBits++
				room = room<<1 - count[subBits+first]
			}
			subAt = end
			end += 1 << subBits
			if end > len(table) {
				return false
			}
			table[p] = isSub | entry(subAt)<<16 | entry(first)<<8 | entry(subBits)
		}
		e |= entry(n-first)<<8 | entry(n-first+uint(extra))
		for j := rev >> first; j < 1<<subBits; j += 1 << (n - first) {
			table[subAt+j] = e
		}
	}
	return true
}

// firstCode returns the first code of n bits.
func firstCode(count []int, n int) int {
	code := 0
	for i := 1; i < n; i++ {
		code = (code + count[i]) << 1
	}
	return code
}

// fixed decompresses a block with the codes of the standard.
func (d *decoder) fixed() {
	lens := d.lens[:]
	for i := range maxLit {
		switch {
		case i < 144:
			lens[i] = 8
		case i < 256:
			lens[i] = 9
		case i < 280:
			lens[i] = 7
		default:
			lens[i] = 8
		}
	}
	for i := range maxDist {
		lens[maxLit+i] = 5
	}
	build(d.lit[:], litBits, lens[:maxLit], litEntry)
	build(d.dist[:], distBits, lens[maxLit:], distEntry)
	d.block()
}

// dynamic decompresses a block that begins with its codes.
func (d *decoder) dynamic() {
	nlit, ndist, nlen := int(d.bits(5))+257, int(d.bits(5))+1, int(d.bits(4))+4
	if d.err != nil {
		return
	}
	if nlit > 286 || ndist > 30 {
		d.fail("%d and %d codes", nlit, ndist)
		return
	}
	var lens [19]uint8
	for _, i := range []uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}[:nlen] {
		lens[i] = uint8(d.bits(3))
	}
	var table [1 << 7]entry
	if !build(table[:], 7, lens[:], func(i int) (entry, uint8) { return entry(i) << 16, 0 }) {
		d.fail("codes of code lengths")
		return
	}
	for i := 0; i < nlit+ndist; {
		d.need(7)
		e := table[d.acc&(1<<7-1)]
		if n := uint(e & 63); e&isBad != 0 || n == 0 || n > d.n {
			if d.n < 7 && d.eof != nil {
				d.cut()
			}
			d.fail("code of a code length")
			return
		}
		d.drop(uint(e & 63))
		sym, rep, val := int(e>>16), 1, uint8(0)
		switch {
		case sym < 16:
			val = uint8(sym)
		case sym == 16:
			if i == 0 {
				d.fail("nothing to repeat")
				return
			}
			rep, val = 3+int(d.bits(2)), d.lens[i-1]
		case sym == 17:
			rep = 3 + int(d.bits(3))
		default:
			rep = 11 + int(d.bits(7))
		}
		if d.err != nil {
			return
		}
		if i+rep > nlit+ndist {
			d.fail("too many code lengths")
			return
		}
		for ; rep > 0; rep-- {
			d.lens[i] = val
			i++
		}
	}
	if d.lens[256] == 0 {
		d.fail("no code for the end of the block")
		return
	}
	if !build(d.lit[:], litBits, d.lens[:nlit], litEntry) || !build(d.dist[:], distBits, d.lens[nlit:nlit+ndist], distEntry) {
		d.fail("codes")
		return
	}
	d.block()
}

// A match is written with up to 16 bytes more than a longest one has, and
// comes behind two literals at most.
const (
	slack = 258 + 16
	room  = slack + 2
)

// block decompresses up to the end of a block.
func (d *decoder) block() {
	for d.err == nil {
		if len(d.in) < 64 {
			d.more()
		}
		if len(d.in) >= 16 && d.w+room <= len(d.dst) {
			if d.fast() {
				return
			}
			continue
		}
		if d.slow() {
			return
		}
	}
}

// slow decodes one symbol near the end of the input or the output. It reports
// whether that was the end of the block.
func (d *decoder) slow() bool {
	d.need(48)
	e := d.look(d.lit[:], litBits)
	if d.err != nil {
		return false
	}
	switch {
	case e&isBad != 0:
		d.fail("code of a length")
		return false
	case e&isEnd != 0:
		return true
	case e&isLiteral != 0:
		if d.w == len(d.dst) {
			d.tooLong()
			return false
		}
		d.dst[d.w] = byte(e >> 16)
		d.w++
		return false
	}
	length := d.valueOf(e)
	d.need(48)
	e = d.look(d.dist[:], distBits)
	if d.err != nil {
		return false
	}
	if e&isOther != 0 {
		d.fail("code of a distance")
		return false
	}
	dist := d.valueOf(e)
	switch {
	case d.err != nil:
	case dist > d.w:
		d.fail("distance %d at %d", dist, d.w)
	case length > len(d.dst)-d.w:
		d.tooLong()
	default:
		for i := d.w; i < d.w+length; i++ {
			d.dst[i] = d.dst[i-dist]
		}
		d.w += length
	}
	return false
}

// look finds the entry of the next code and takes its bits, but not the extra
// ones.
func (d *decoder) look(table []entry, first uint) entry {
	e := table[d.acc&(1<<first-1)]
	if e&isSub != 0 {
		if d.n < first {
			d.cut()
			return 0
		}
		d.drop(first)
		e = table[uint64(e>>16)+d.acc&(1<<(e&63)-1)]
	}
	n := uint(e>>8) & 15
	if n > d.n || e&isBad != 0 && d.n < 15 {
		d.cut()
		return 0
	}
	d.drop(n)
	return e
}

// valueOf adds the extra bits to a base.
func (d *decoder) valueOf(e entry) int {
	return int(e>>16) + int(d.bits(uint(e&63)-uint(e>>8)&15))
}

// fast decodes while there is enough input and room. It reports whether it came
// to the end of the block.
func (d *decoder) fast() bool {
	var (
		in   = d.in
		dst  = d.dst
		w    = d.w
		acc  = d.acc
		n    = d.n
		lit  = &d.lit
		dist = &d.dist
		end  bool
	)
	p := 0
	for p+8 <= len(in) && w+room <= len(dst) {
		// At least 56 bits are ahead now: enough for three literals of the
		// first table, or a length and a distance with all their bits.
		acc |= binary.LittleEndian.Uint64(in[p:]) << n
		p += int(63-n) >> 3
		n |= 56
		e := lit[acc&(1<<litBits-1)]
		if e&isLiteral != 0 {
			acc >>= e & 63
			n -= uint(e & 63)
			dst[w] = byte(e >> 16)
			w++
			e = lit[acc&(1<<litBits-1)]
			if e&isLiteral != 0 {
				acc >>= e & 63
				n -= uint(e & 63)
				dst[w] = byte(e >> 16)
				w++
				e = lit[acc&(1<<litBits-1)]
				if e&isLiteral != 0 {
					acc >>= e & 63
					n -= uint(e & 63)
					dst[w] = byte(e >> 16)
					w++
					continue
				}
			}
			if n < 48 {
				continue // the code is looked up again with more bits
			}
		}
		if e&isOther != 0 {
			if e&isSub != 0 {
				acc >>= litBits
				n -= litBits
				e = lit[uint64(e>>16)+acc&(1<<(e&63)-1)]
			}
			if e&isBad != 0 {
				d.fail("code of a length")
				break
			}
			if e&isLiteral != 0 {
				acc >>= e & 63
				n -= uint(e & 63)
				dst[w] = byte(e >> 16)
				w++
				continue
			}
			if e&isEnd != 0 {
				acc >>= e & 63
				n -= uint(e & 63)
				end = true
				break
			}
		}
		code, all := uint(e>>8)&15, uint(e&63)
		length := int(e>>16) + int(acc>>code&(1<<(all-code)-1))
		acc >>= all
		n -= all
		e = dist[acc&(1<<distBits-1)]
		if e&isOther != 0 {
			if e&isSub != 0 {
				acc >>= distBits
				n -= distBits
				e = dist[uint64(e>>16)+acc&(1<<(e&63)-1)]
			}
			if e&isBad != 0 {
				d.fail("code of a distance")
				break
			}
		}
		code, all = uint(e>>8)&15, uint(e&63)
		back := int(e>>16) + int(acc>>code&(1<<(all-code)-1))
		acc >>= all
		n -= all
		if back > w {
			d.fail("distance %d at %d", back, w)
			break
		}
		from := w - back
		to := dst[w : w+slack]
		switch {
		case back >= 8:
			src := dst[from : from+slack]
			binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(src))
			binary.LittleEndian.PutUint64(to[8:], binary.LittleEndian.Uint64(src[8:]))
			for i := 16; i < length; i += 8 {
				binary.LittleEndian.PutUint64(to[i:i+8], binary.LittleEndian.Uint64(src[i:i+8]))
			}
		case back == 1:
			v := uint64(dst[from]) * 0x0101010101010101
			for i := 0; i < length; i += 8 {
				binary.LittleEndian.PutUint64(to[i:i+8], v)
			}
		default:
			for i := range length {
				to[i] = dst[from+i]
			}
		}
		w += length
	}
	// What was read ahead in whole bytes goes back.
	back := min(int(n>>3), p)
	n -= uint(back) << 3
	d.acc, d.n = acc&(1<<n-1), n
	d.in = in[p-back:]
	d.w = w
	return end
}
