package main

import (
	"slices"
	"strconv"

	"github.com/perfark/perfark/profile"
)

// quickFields are those of a frame that are printed if nothing is asked for,
// and frameFields all that it can have.
const (
	quickFields = fieldIP | fieldSym | fieldSymoff | fieldDSO
	frameFields = quickFields | fieldSrcline
)

// A quickFrame is what is printed of a location in a call chain: there are far
// more frames than locations.
type quickFrame struct {
	addr   uint64 // of a location in user space: it is printed, not the one as sampled
	offset uint32 // from the begin of the symbol
	text   int32  // index into scriptPrinter.texts; -1: see scriptPrinter.frame
}

// A quickText is what many locations have in common: the line is the address,
// the name, the offset if named, and the object.
type quickText struct {
	name, object []byte
	named, user  bool
}

// prepare makes the texts of the frames, when all else of sp is set.
func (sp *scriptPrinter) prepare() {
	if sp.stop != nil || !slices.ContainsFunc(sp.events, func(e scriptEvent) bool { return e.chains && e.fields&frameFields == quickFields }) {
		return
	}
	type pair struct {
		fn, object int32
		user       bool
	}
	texts := map[pair]int32{}
	last, text := pair{fn: -2}, int32(0)
	sp.quick = make([]quickFrame, len(sp.p.Locations))
	for i := range sp.quick {
		l := &sp.p.Locations[i]
		q := &sp.quick[i]
		q.addr, q.text = l.Addr, -1
		k := pair{l.Func, l.Object, inUser(sp.p, l)}
		if k.fn >= 0 {
			offset := l.Addr - sp.p.Functions[k.fn].Start
			q.offset = uint32(offset)
			if uint64(q.offset) != offset {
				continue
			}
		}
		if sp.inline && l.NFrames > 1 {
			continue
		}
		if k != last { // most have those of the one before
			n, ok := texts[k]
			if !ok {
				n = int32(len(sp.texts))
				texts[k] = n
				t := quickText{named: k.fn >= 0, user: k.user}
				t.name = sp.symbol([]byte{' '}, l, 0)
				if t.named {
					t.name = append(t.name, "+0x"...)
				}
				t.object = append(slices.Clone(sp.dso(l)), '\n')
				sp.texts = append(sp.texts, t)
			}
			last, text = k, n
		}
		q.text = text
	}
}

// touch loads what the frames of a chain need, so that the processor has many
// loads under way.
func (sp *scriptPrinter) touch(chain []scriptFrame) (n int32) {
	for i := range chain {
		if loc := chain[i].loc; loc >= 0 {
			n += sp.quick[loc].text
		}
	}
	return n
}

// quickFrames appends the first lines of a call chain, and returns how many:
// all but those behind a frame that needs more care.
func (sp *scriptPrinter) quickFrames(b []byte, chain []scriptFrame) ([]byte, int) {
	if sp.maxStack > 0 && len(chain) > sp.maxStack {
		chain = chain[:sp.maxStack]
	}
	if sp.touch(chain) == -1<<31 {
		return b, 0 // never: but the loads must not be left out
	}
	for i := range chain {
		fr := &chain[i]
		if fr.loc == profile.None {
			return b, i
		}
		q := &sp.quick[fr.loc]
		if q.text < 0 {
			return b, i
		}
		t := &sp.texts[q.text]
		shown := fr.ip
		if t.user {
			shown = q.addr
		}
		line := [17]byte{'\t', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' ', ' '}
		for j := 16; ; j-- {
			line[j] = hexDigits[shown&15]
			if shown >>= 4; shown == 0 {
				break
			}
		}
		b = append(b, line[:]...)
		b = append(b, t.name...)
		if t.named {
			b = strconv.AppendUint(b, uint64(q.offset), 16)
		}
		b = append(b, t.object...)
	}
	return b, len(chain)
}
