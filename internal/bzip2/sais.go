package bzip2

// sais fills sa with the suffixes of text in order. The values of text are
// below k. It takes time and memory linear in len(text) whatever the text is.
func sais(text, sa []int32, k int) {
	n := len(text)
	if n == 0 {
		return
	}
	// Types: small[i] if suffix i is less than suffix i+1.
	small := make([]bool, n)
	for i := n - 2; i >= 0; i-- {
		small[i] = text[i] < text[i+1] || text[i] == text[i+1] && small[i+1]
	}
	isLMS := func(i int32) bool { return i > 0 && small[i] && !small[i-1] }
	ends := make([]int32, k)
	place := make([]int32, k)
	for _, c := range text {
		ends[c]++
	}
	for c := 1; c < k; c++ {
		ends[c] += ends[c-1]
	}
	tails := func() { copy(place, ends) }
	heads := func() {
		place[0] = 0
		copy(place[1:], ends)
	}
	induce := func() {
		heads()
		c := text[n-1]
		sa[place[c]] = int32(n - 1)
		place[c]++
		for i := range sa {
			if j := sa[i] - 1; j >= 0 && !small[j] {
				c := text[j]
				sa[place[c]] = j
				place[c]++
			}
		}
		tails()
		for i := n - 1; i >= 0; i-- {
			if j := sa[i] - 1; j >= 0 && small[j] {
				c := text[j]
				place[c]--
				sa[place[c]] = j
			}
		}
	}
	// Sort the LMS substrings.
	fill(sa, -1)
	tails()
	var lms []int32
	for i := range int32(n) {
		if isLMS(i) {
			lms = append(lms, i)
			c := text[i]
			place[c]--
			sa[place[c]] = i
		}
	}
	induce()
	if m := len(lms); m > 1 {
		// Number them; equal ones alike.
		sorted := make([]int32, 0, m)
		for _, p := range sa {
			if isLMS(p) {
				sorted = append(sorted, p)
			}
		}
		rank := sa // reused
		fill(rank, -1)
		next := int32(0)
		rank[sorted[0]] = 0
		for i := 1; i < m; i++ {
			if !equalLMS(text, isLMS, sorted[i-1], sorted[i]) {
				next++
			}
			rank[sorted[i]] = next
		}
		short := make([]int32, m)
		for i, p := range lms {
			short[i] = rank[p]
		}
		order := sorted
		if int(next)+1 < m {
			sais(short, order, int(next)+1)
		} else {
			for i, r := range short {
				order[r] = int32(i)
			}
		}
		for i, x := range order {
			order[i] = lms[x]
		}
		// Sort everything from the sorted LMS suffixes.
		fill(sa, -1)
		tails()
		for i := m - 1; i >= 0; i-- {
			c := text[order[i]]
			place[c]--
			sa[place[c]] = order[i]
		}
		induce()
	}
}

// equalLMS reports whether the LMS substrings at a and b are equal: the text
// up to and including the next LMS suffix.
func equalLMS(text []int32, isLMS func(int32) bool, a, b int32) bool {
	for i := int32(0); ; i++ {
		if a+i >= int32(len(text)) || b+i >= int32(len(text)) || text[a+i] != text[b+i] {
			return false
		}
		x, y := isLMS(a+i), isLMS(b+i)
		if x != y {
			return false
		}
		if i > 0 && x {
			return true
		}
	}
}

func fill(a []int32, x int32) {
	for i := range a {
		a[i] = x
	}
}
