package bzip2

import "encoding/binary"

// A sorter computes the Burrows-Wheeler transform: the last column of the
// sorted matrix of all rotations of a block.
//
// The block is first rotated to its least rotation. Then the order of its
// rotations is the order of its suffixes, and two thirds of them need no
// comparison: Ko and Aluru's theorem gives the place of every suffix from
// those of the LMS suffixes, the ones smaller than both their neighbours in
// the text. These are sorted by their bytes, eight at a time. Blocks that
// repeat themselves so much that this takes long are sorted by SA-IS (Nong,
// Zhang, Chan, 2009), which is slower but linear.
type sorter struct {
	text  []byte  // the least rotation, followed by its own start
	sa    []int32 // suffixes in order
	items []item  // the LMS suffixes
	spare []item
	lms   [256]int32
	heads [1<<16 + 1]int32
}

// An item is a suffix and eight of its bytes.
type item struct {
	key uint64
	pos int32
}

// keySize is the number of bytes in a key.
const keySize = 8

// transform appends the last column for s to dst and returns it with the row
// in which s itself stands. The block is not empty.
func (t *sorter) transform(dst, s []byte) ([]byte, int) {
	n := len(s)
	least := leastRotation(s)
	t.text = append(append(t.text[:0], s[least:]...), s[:least]...)
	for i := range 2 * keySize {
		t.text = append(t.text, t.text[i%n])
	}
	if cap(t.sa) < n {
		t.sa = make([]int32, n)
	}
	t.sa = t.sa[:n]
	if cap(dst)-len(dst) < n {
		dst = append(make([]byte, 0, len(dst)+n), dst...)
	}
	last := dst[len(dst) : len(dst)+n]
	if !t.sortLMS(n) {
		text := make([]int32, n)
		for i, c := range t.text[:n] {
			text[i] = int32(c)
		}
		sais(text, t.sa, 256)
		for i, p := range t.sa {
			if p == 0 {
				p = int32(n)
			}
			last[i] = t.text[p-1]
		}
	} else {
		t.induce(last)
	}
	want := int32((n - least) % n) // where s starts in text
	row := 0
	for i, p := range t.sa {
		if p == want {
			row = i
			break
		}
	}
	return dst[:len(dst)+n], row
}

// leastRotation returns the start of the least rotation of s.
func leastRotation(s []byte) int {
	n := len(s)
	i, j, k := 0, 1, 0
	for i < n && j < n && k < n {
		a, b := i+k, j+k
		if a >= n {
			a -= n
		}
		if b >= n {
			b -= n
		}
		x, y := s[a], s[b]
		if x == y {
			k++
			continue
		}
		if x > y {
			i += k + 1
		} else {
			j += k + 1
		}
		if i == j {
			j++
		}
		k = 0
	}
	return min(i, j)
}

// sortLMS fills t.items with the LMS suffixes in order, and t.lms with their
// number per first byte. It reports false if that takes too long.
func (t *sorter) sortLMS(n int) bool {
	text := t.text
	heads := &t.heads
	clear(heads[:])
	t.lms = [256]int32{}
	// From the right: a suffix is of type S if it is less than the next one.
	// The last one is not: the empty suffix is the least.
	count := 0
	s := false
	for i := n - 2; i >= 0; i-- {
		a, b := text[i], text[i+1]
		if a < b {
			s = true
		} else if a > b {
			if s { // i+1 is an LMS suffix
				heads[int(b)<<8|int(text[i+2])+1]++
				t.lms[b]++
				count++
			}
			s = false
		}
	}
	for i := 1; i < len(heads); i++ {
		heads[i] += heads[i-1]
	}
	if cap(t.items) < count {
		t.items = make([]item, count, count+count/8)
	}
	t.items = t.items[:count]
	if cap(t.spare) < count {
		t.spare = make([]item, cap(t.items))
	}
	s = false
	for i := n - 2; i >= 0; i-- {
		a, b := text[i], text[i+1]
		if a < b {
			s = true
		} else if a > b {
			if s {
				h := &heads[int(b)<<8|int(text[i+2])]
				t.items[*h] = item{binary.BigEndian.Uint64(text[i+3:]), int32(i + 1)}
				*h++
			}
			s = false
		}
	}
	// heads[k] is now the end of bucket k.
	q := quick{text: text, n: n, work: 24 * n, spare: t.spare[:cap(t.spare)]}
	from := int32(0)
	for _, to := range heads[:1<<16] {
		if to-from > 1 {
			q.radix(t.items[from:to], 2, 56)
			if q.work < 0 {
				return false
			}
		}
		from = to
	}
	return true
}

// quick is a multikey quicksort of suffixes, with a limit on the work done.
type quick struct {
	text  []byte
	n     int
	work  int // steps left; negative if it was too much
	spare []item
}

// fewItems is where comparing is faster than counting.
const fewItems = 400

// radix orders a like sort. It distributes many items by one byte of their
// keys, that at shift and above being the first that may differ.
func (q *quick) radix(a []item, depth int, shift int) {
	for len(a) > fewItems {
		q.work -= len(a)
		if q.work < 0 {
			return
		}
		var count [256]int32
		for i := range a {
			count[byte(a[i].key>>shift)]++
		}
		if int(count[byte(a[0].key>>shift)]) < len(a) {
			var place [256]int32
			at := int32(0)
			for c, n := range count {
				place[c] = at
				at += n
			}
			b := q.spare[:len(a)]
			for _, x := range a {
				p := &place[byte(x.key>>shift)]
				b[*p] = x
				*p++
			}
			copy(a, b)
			for _, n := range count {
				if n > 1 {
					q.next(a[:n], depth, shift)
				}
				a = a[n:]
			}
			return
		}
		if shift -= 8; shift < 0 {
			depth += keySize
			shift = 56
			if !q.load(a, depth) {
				return
			}
		}
	}
	q.sort(a, depth)
}

// next orders a whose keys agree down to shift.
func (q *quick) next(a []item, depth int, shift int) {
	if len(a) <= fewItems {
		q.sort(a, depth)
		return
	}
	if shift -= 8; shift < 0 {
		depth += keySize
		shift = 56
		if !q.load(a, depth) {
			return
		}
	}
	q.radix(a, depth, shift)
}

// sort orders a, whose suffixes agree in their first depth bytes and whose
// keys are the bytes at depth.
func (q *quick) sort(a []item, depth int) {
	for len(a) > 16 {
		q.work -= len(a)
		if q.work < 0 {
			return
		}
		p := pivot(a)
		// a[:lt] < p, a[lt:i] == p, a[gt:] > p
		lt, i, gt := 0, 0, len(a)
		for i < gt {
			switch k := a[i].key; {
			case k < p:
				a[lt], a[i] = a[i], a[lt]
				lt++
				i++
			case k > p:
				gt--
				a[gt], a[i] = a[i], a[gt]
			default:
				i++
			}
		}
		q.sort(a[:lt], depth)
		q.sort(a[gt:], depth)
		a = a[lt:gt]
		depth += keySize
		if len(a) < 2 || !q.load(a, depth) {
			return
		}
	}
	// Few items: by insertion, and equal ones by their further bytes.
	for i := 1; i < len(a); i++ {
		x := a[i]
		j := i
		for j > 0 && x.key < a[j-1].key {
			a[j] = a[j-1]
			j--
		}
		a[j] = x
	}
	for i := 0; i < len(a); {
		j := i + 1
		for j < len(a) && a[j].key == a[i].key {
			j++
		}
		if g := a[i:j]; len(g) == 2 {
			q.pair(g, depth+keySize)
		} else if len(g) > 2 && q.load(g, depth+keySize) {
			q.sort(g, depth+keySize)
		}
		i = j
	}
}

// load sets the keys of a to the bytes at depth. It reports false if there is
// nothing more to compare, or no work left.
func (q *quick) load(a []item, depth int) bool {
	q.work -= len(a)
	if depth >= q.n || q.work < 0 {
		return false
	}
	for i := range a {
		at := int(a[i].pos) + depth
		if at >= q.n {
			at -= q.n
		}
		a[i].key = binary.BigEndian.Uint64(q.text[at:])
	}
	return true
}

// pair orders two suffixes that agree in their first depth bytes.
func (q *quick) pair(a []item, depth int) {
	i, j := int(a[0].pos)+depth, int(a[1].pos)+depth
	for ; depth < q.n && q.work >= 0; depth += keySize {
		if i >= q.n {
			i -= q.n
		}
		if j >= q.n {
			j -= q.n
		}
		x, y := binary.BigEndian.Uint64(q.text[i:]), binary.BigEndian.Uint64(q.text[j:])
		if x != y {
			if x > y {
				a[0], a[1] = a[1], a[0]
			}
			return
		}
		q.work--
		i += keySize
		j += keySize
	}
}

// pivot returns the median of some keys.
func pivot(a []item) uint64 {
	n := len(a)
	x, y, z := a[0].key, a[n/2].key, a[n-1].key
	if n > 200 {
		x = median(x, a[n/8].key, a[n/4].key)
		y = median(y, a[n/2-n/8].key, a[n/2+n/8].key)
		z = median(z, a[n-1-n/8].key, a[n-1-n/4].key)
	}
	return median(x, y, z)
}

func median(x, y, z uint64) uint64 {
	return max(min(x, y), min(max(x, y), z))
}

// induce fills t.sa from the sorted LMS suffixes, and last with the bytes
// before the suffixes.
func (t *sorter) induce(last []byte) {
	text, sa := t.text, t.sa
	n := len(sa)
	// The suffixes of one first byte stand together, those of type L first.
	var size, large [256]int32
	l := true
	size[text[n-1]]++
	large[text[n-1]]++
	for i := n - 2; i >= 0; i-- {
		a, b := text[i], text[i+1]
		if a != b {
			l = a > b
		}
		size[a]++
		if l {
			large[a]++
		}
	}
	var head, tail [256]int32
	at := int32(0)
	for c := range 256 {
		head[c] = at
		at += size[c]
		tail[c] = at
	}
	// From left to right, every suffix gives the place of the one before it
	// in the text if that is of type L. The empty suffix comes first.
	place := head
	c := text[n-1]
	sa[place[c]] = int32(n - 1)
	place[c]++
	items := t.items
	for b := range 256 {
		for i := head[b]; i < head[b]+large[b]; i++ {
			j := sa[i]
			if j == 0 {
				continue
			}
			if c := text[j-1]; int(c) >= b {
				sa[place[c]] = j - 1
				place[c]++
			}
		}
		k := t.lms[b]
		for _, x := range items[:k] {
			c := text[x.pos-1]
			sa[place[c]] = x.pos - 1
			place[c]++
		}
		items = items[k:]
	}
	// From right to left the same for type S.
	place = tail
	for b := 255; b >= 0; b-- {
		for i := tail[b] - 1; i >= head[b]; i-- {
			j := sa[i]
			if j == 0 {
				last[i] = text[n-1]
				continue
			}
			c := text[j-1]
			last[i] = c
			if int(c) < b || int(c) == b && i >= place[c] {
				place[c]--
				sa[place[c]] = j - 1
			}
		}
	}
}
