package session

import "sort"

// unwoundMax is how many bytes of unwound call chains are kept, by all workers
// together.
const unwoundMax = 64 << 20

// An unwoundLog keeps unwound call chains for the next pass over the samples:
// to find them costs far more than everything else. It has those of the first
// samples, as many as there is room for.
type unwoundLog struct {
	at    []unwoundAt // in order
	chain []byte
}

// An unwoundAt says where the chain of a sample ends in a log; it begins where
// the one before ends.
type unwoundAt struct {
	pos uint64 // of the sample: see perfdata.Batch.Pos
	end int
}

// chainOf returns the call chain of the current sample, whose stack was
// recorded: from a log of an earlier pass, or unwound now.
func (w *worker) chainOf(f *frames) []byte {
	pos := f.t.pos
	for i := range w.l.unwoundLogs {
		if c, ok := w.l.unwoundLogs[i].find(pos); ok {
			return c
		}
	}
	c := w.unwound(f)
	g := &w.log
	if w.l.logs && len(g.chain)+len(c) <= unwoundMax/w.l.o.Workers {
		g.chain = append(g.chain, c...)
		g.at = append(g.at, unwoundAt{pos, len(g.chain)})
	}
	return c
}

// has reports whether the chain of the sample at pos, the last one, is in the
// log.
func (g *unwoundLog) has(pos uint64) bool {
	n := len(g.at)
	return n > 0 && g.at[n-1].pos == pos
}

func (g *unwoundLog) find(pos uint64) ([]byte, bool) {
	i := sort.Search(len(g.at), func(i int) bool { return g.at[i].pos >= pos })
	if i == len(g.at) || g.at[i].pos != pos {
		return nil, false
	}
	from := 0
	if i > 0 {
		from = g.at[i-1].end
	}
	return g.chain[from:g.at[i].end:g.at[i].end], true
}
