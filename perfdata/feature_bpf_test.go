package perfdata

import (
	"encoding/binary"
	"testing"
)

// The machine code of a program stands in one piece, that of its functions one
// behind the other (jited_prog_insns, jited_func_lens).
func TestBPFCode(t *testing.T) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		big := order.Uint16([]byte{0, 1}) == 1
		build := func(arrays uint64, codeLen uint32, lens ...uint32) *BPFProg {
			p := &BPFProg{Info: make([]byte, 200), Arrays: arrays}
			put32 := func(off int, v uint32) { order.PutUint32(p.Info[off:], v) }
			put64 := func(off int, v uint64) { order.PutUint64(p.Info[off:], v) }
			n := uint32(len(lens))
			put32(bpfInfoNrKsyms, n)
			put32(bpfInfoNrFuncLens, n)
			put32(bpfInfoNrProgTags, n)
			put32(bpfInfoJitedLen, codeLen)
			p.Data = append(p.Data, "\xaa\xbb\xcc\xdd\xee"...)
			put64(bpfInfoKsyms, uint64(len(p.Data)))
			for i := range lens {
				p.Data = append(p.Data, make8(order, 0xffffffffc0000000+uint64(i)*0x100)...)
			}
			put64(bpfInfoFuncLens, uint64(len(p.Data)))
			for _, v := range lens {
				b := [4]byte{}
				order.PutUint32(b[:], v)
				p.Data = append(p.Data, b[:]...)
			}
			put64(bpfInfoProgTags, uint64(len(p.Data)))
			p.Data = append(p.Data, make8(order, 1)...)
			p.Data = append(p.Data, make8(order, 2)...)
			p.decode(0, big)
			return p
		}
		code := func(p *BPFProg) (out []string) {
			for _, f := range p.Funcs {
				out = append(out, string(f.Code))
			}
			return out
		}
		for _, tt := range []struct {
			arrays uint64
			len    uint32
			lens   []uint32
			want   [2]string
		}{
			{1, 5, []uint32{2, 3}, [2]string{"\xaa\xbb", "\xcc\xdd\xee"}},
			{1, 4, []uint32{2, 3}, [2]string{"\xaa\xbb", ""}},
			{1, 0xffffffff, []uint32{2, 3}, [2]string{}},
			{0, 5, []uint32{2, 3}, [2]string{}},
			{1, 5, []uint32{0xffffffff, 3}, [2]string{}},
		} {
			got := code(build(tt.arrays, tt.len, tt.lens...))
			if len(got) != 2 || got[0] != tt.want[0] || got[1] != tt.want[1] {
				t.Errorf("big %v, %+v: %q", big, tt, got)
			}
		}
	}
}

func make8(order binary.ByteOrder, v uint64) []byte {
	b := make([]byte, 8)
	order.PutUint64(b, v)
	return b
}
