package session

import (
	"context"
	"encoding/binary"
	"slices"
)

// A recall is what the first pass over the samples leaves for another one: for
// as many samples as there is room for, what was found out about them. To read
// that is far less work than to decode and look up the samples again.
type recall struct {
	keep    Keep // of that pass
	workers []recalled
	chunks  []bool // which chunks of a plain recording are in the logs; nil if it is not plain
	whole   bool   // all samples are
}

// A recalled is the tables of a worker's builder, by whose numbers its log
// goes, and these of the locations in the profile.
type recalled struct {
	threads   map[threadKey]int32
	threadPos []threadFirst
	groups    map[group]int32
	groupOf   []group
	locs      []int32
	logs      [][]byte
	deepest   int // frames of the longest call chain
}

// A sampleLog is the part of a recall that a worker writes. Samples of a batch
// are in it together, or not at all.
//
// A batch is a byte that says how many bytes a location takes, and samples:
//
//	flags, and how many frames it has of its own
//	how many it has of the sample before: see queued
//	[group] [period] [location of the leaf]
//	locations of its own frames, outermost first
type sampleLog struct {
	room   int // bytes that may still be written; 0: there is no log
	batch  []byte
	width  int   // of a location; 0: this batch is not logged
	group  int32 // of the sample before
	period uint64
	block  []byte // at hand
	logs   [][]byte

	deepest int // frames of the longest call chain so far
}

// What a logged sample has in common with the one before, and what is its
// leaf.
const (
	logGroup  = 1 << iota // the group
	logPeriod             // the period
	logInner              // the leaf is the innermost of its own frames
	logBits   = iota
)

// recallMax is how many bytes of logs there are by default.
const recallMax = 256 << 20

// recalls reports whether the current pass leaves a recall.
func (l *loader) recalls() bool {
	return l.index == nil && l.o.MaxRecall > 0 && !l.o.HitsOnly && !l.o.Branches &&
		l.o.Keep&KeepFrames != 0 && l.o.Keep&keepExtra == 0
}

// begin begins a batch of so many bytes, before which there are so many
// locations.
func (g *sampleLog) begin(locs, bytes int) {
	g.width = 0
	if g.room == 0 {
		return
	}
	g.batch, g.group, g.period = g.batch[:0], none, 0
	g.width = 2
	for (locs+bytes/8)>>(8*g.width) > 0 { // most that they can become
		g.width++
	}
	g.batch = append(g.batch, byte(g.width))
}

// add adds the samples of a queue, after which there are so many locations.
func (g *sampleLog) add(q *frameQueue, locs int) {
	if locs>>(8*g.width) > 0 {
		g.width = 0 // frames that are not in the batch: leave it out
	}
	if g.width == 0 {
		return
	}
	out := g.batch
	for i := range q.samples {
		s := &q.samples[i]
		flags := 0
		g.deepest = max(g.deepest, int(s.keep+s.to-s.from))
		if s.group == g.group {
			flags |= logGroup
		}
		if s.period == g.period {
			flags |= logPeriod
		}
		if s.leaf < s.to {
			flags |= logInner
		}
		out = appendSmall(out, uint64(s.to-s.from), flags, logBits)
		out = appendSmall(out, uint64(s.keep), 0, 0)
		if flags&logGroup == 0 {
			g.group = s.group
			out = binary.AppendUvarint(out, uint64(g.group))
		}
		if flags&logPeriod == 0 {
			g.period = s.period
			out = binary.AppendUvarint(out, g.period)
		}
		if flags&logInner == 0 {
			out = binary.AppendUvarint(out, uint64(s.loc))
		}
		for _, loc := range slices.Backward(q.locs[s.from:s.to]) {
			out = binary.LittleEndian.AppendUint32(out, uint32(loc))
			out = out[:len(out)-4+g.width]
		}
	}
	g.batch = out
}

// end ends a batch, and reports whether it is in the log.
func (g *sampleLog) end() bool {
	if g.width == 0 {
		return false
	}
	n := len(g.batch) + 4 // so that the last location can be read as the others
	if n > g.room {
		g.room = 0
		return false
	}
	g.room -= n
	if n > cap(g.block)-len(g.block) {
		g.block = make([]byte, 0, max(1<<20, n))
	}
	from := len(g.block)
	g.block = append(append(g.block, g.batch...), 0, 0, 0, 0)
	g.logs = append(g.logs, g.block[from:len(g.block):len(g.block)])
	return true
}

// appendSmall appends a number and, below it, so many bits. Small ones take a
// byte.
func appendSmall(b []byte, v uint64, low, bits int) []byte {
	most := uint64(0xff) >> bits
	if v < most {
		return append(b, byte(v)<<bits|byte(low))
	}
	b = append(b, byte(most)<<bits|byte(low))
	return binary.AppendUvarint(b, v-most)
}

// small reads what appendSmall wrote.
func small(b []byte, bits int) (v uint64, low int, n int) {
	most := uint64(0xff) >> bits
	v, low = uint64(b[0])>>bits, int(b[0])&(1<<bits-1)
	if v < most {
		return v, low, 1
	}
	more, n := binary.Uvarint(b[1:])
	return v + more, low, 1 + n
}

// takeRecall makes the recall of the pass that is over. locs has, by worker,
// the locations of the profile.
func (l *loader) takeRecall(locs [][]int32) {
	r := &recall{keep: l.o.Keep, whole: true}
	for i, w := range l.workers {
		b := w.b
		r.workers = append(r.workers, recalled{
			b.threads, b.threadPos, b.groups, slices.Clone(b.groupOf), locs[i], b.log.logs, b.log.deepest,
		})
		r.whole = r.whole && w.logged
		b.log = sampleLog{}
	}
	if l.plain != nil {
		r.chunks, l.plain.logged = l.plain.logged, nil
	} else if !r.whole {
		return // there is no telling which batches are missing
	}
	l.recall = r
}

// again takes over the tables of an earlier pass, and adds the samples that it
// logged. In these same[l] stands for every location l.
func (b *builder) again(ctx context.Context, r *recalled, same []int32) error {
	b.threads, b.threadPos, b.groups, b.groupOf = r.threads, r.threadPos, r.groups, r.groupOf
	to := r.locs
	if same != nil {
		for i, loc := range to {
			to[i] = same[loc]
		}
	}
	// Where chains count whole, nobody needs them laid out.
	straight := b.l.callers && (b.l.depth == 0 || r.deepest <= max(b.l.depth, -b.l.depth))
	for i, log := range r.logs {
		if err := ctx.Err(); err != nil {
			return err
		}
		b.replay(log, to, straight)
		r.logs[i] = nil
	}
	b.last = lastChain{}
	return nil
}

// replay adds the samples of a batch: straight to the callers, or with their
// chains laid out.
func (b *builder) replay(log []byte, to []int32, straight bool) {
	q := &b.queue
	width := int(log[0])
	mask := uint32(1<<(8*width) - 1)
	s := queued{stack: none}
	if straight {
		b.way.init(b)
	}
	own := b.own
	for log = log[1:]; len(log) > 4; {
		frames, flags, n := small(log, logBits)
		log = log[n:]
		keep, _, n := small(log, 0)
		log = log[n:]
		if flags&logGroup == 0 {
			v, n := binary.Uvarint(log)
			s.group, log = int32(v), log[n:]
		}
		if flags&logPeriod == 0 {
			v, n := binary.Uvarint(log)
			s.period, log = v, log[n:]
		}
		if flags&logInner == 0 {
			v, n := binary.Uvarint(log)
			s.loc, log = to[v], log[n:]
		}
		s.keep, own = int32(keep), own[:0]
		n = int(frames) * width
		for i := 0; i < n; i += width {
			own = append(own, to[binary.LittleEndian.Uint32(log[i:])&mask])
		}
		log = log[n:]
		if flags&logInner != 0 {
			s.loc = own[len(own)-1]
		}
		if straight {
			b.walk(&s, own)
			if len(b.way.done) >= leafBatch {
				b.addCallers()
			}
			continue
		}
		b.lay(&s, own)
		q.samples = append(q.samples, s)
		if len(q.samples) == leafBatch {
			b.tally()
		}
	}
	b.own = own
	if straight {
		b.back(0)
		b.addCallers()
		return
	}
	b.tally()
}
