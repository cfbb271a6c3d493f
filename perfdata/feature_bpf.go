package perfdata

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"slices"

	"github.com/perfark/perfark/internal/decode"
)

// A BPFProg is a BPF program as BPF_OBJ_GET_INFO_BY_FD describes it, laid out
// in one block: struct perf_bpil (tools/perf/util/bpf-utils.h) with struct
// bpf_prog_info (include/uapi/linux/bpf.h). Fields that an older, shorter
// bpf_prog_info does not have are zero.
type BPFProg struct {
	InfoLen uint32 // bytes of bpf_prog_info as the recorder knew it
	Arrays  uint64 // which of its arrays are in Data, as a mask
	Info    []byte // bpf_prog_info; pointers are offsets into Data
	Data    []byte

	ID    uint32
	Name  string // at most 15 bytes
	BTFID uint32 // of a BTF; 0 if none

	// The program's functions, its own first. nil if the counts in Info do
	// not agree or an array is not there.
	Funcs []BPFFunc

	// Where the machine code of its source lines begins, in order of address;
	// nil if it is not recorded.
	Lines []BPFLine
}

// A BPFLine is a source line of a BPF program.
type BPFLine struct {
	Addr         uint64
	File         uint32 // offset of the file's name in the strings of the BTF
	Text         uint32 // and of the line itself
	Line, Column uint32
}

// A BPFFunc is a function of a BPF program, as machine code.
type BPFFunc struct {
	Addr uint64
	Size uint32 // bytes
	Tag  [8]byte
	Type uint32 // of the function in the BTF; 0 if unknown
	Code []byte // machine code, in the program's Data; nil if it is not recorded
}

// A BTF is the type information of BPF programs.
type BTF struct {
	ID   uint32
	Data []byte
}

// Offsets in struct bpf_prog_info.
const (
	bpfInfoID           = 4
	bpfInfoJitedLen     = 16
	bpfInfoJitedInsns   = 24
	bpfInfoName         = 64
	bpfInfoNameLen      = 16
	bpfInfoNrKsyms      = 104
	bpfInfoNrFuncLens   = 108
	bpfInfoKsyms        = 112
	bpfInfoFuncLens     = 120
	bpfInfoBTFID        = 128
	bpfInfoFuncRecSize  = 132
	bpfInfoFuncInfo     = 136
	bpfInfoNrFuncInfo   = 144
	bpfInfoNrLineInfo   = 148
	bpfInfoLineInfo     = 152
	bpfInfoJitedLines   = 160
	bpfInfoNrJitedLines = 168
	bpfInfoLineRecSize  = 172
	bpfInfoJitedRecSize = 176
	bpfInfoNrProgTags   = 180
	bpfInfoProgTags     = 184
	bpfInfoBlobOverhead = 16 // info_len, data_len, arrays
)

func decodeBPFProgs(c *decode.Cursor) []BPFProg {
	n := c.Count32(bpfInfoBlobOverhead, "count")
	var v []BPFProg
	for range n {
		var p BPFProg
		p.InfoLen = c.Uint32("info_len")
		dataLen := c.Length32("data_len")
		p.Arrays = c.Uint64("arrays")
		if c.Err() != nil {
			break
		}
		if p.InfoLen > 1<<12 {
			c.Failf("info_len", "%d bytes, at most %d are credible", p.InfoLen, 1<<12)
			break
		}
		at := c.Offset()
		p.Info = bytes.Clone(c.Bytes(int(p.InfoLen), "info"))
		p.Data = bytes.Clone(c.Bytes(dataLen, "data"))
		if c.Err() != nil {
			break
		}
		p.decode(at, c.Big())
		v = append(v, p)
	}
	return v
}

// field returns a cursor at an offset of Info, which reads zeros where that
// is too short.
func (p *BPFProg) field(off int, at int64, big bool) decode.Cursor {
	return decode.NewCursor(p.Info[min(off, len(p.Info)):], at+int64(off), big)
}

func (p *BPFProg) decode(at int64, big bool) {
	u32 := func(off int) uint32 { c := p.field(off, at, big); return c.Uint32("") }
	u64 := func(off int) uint64 { c := p.field(off, at, big); return c.Uint64("") }
	array := func(off int) []byte {
		o := u64(off)
		if o >= uint64(len(p.Data)) {
			return nil
		}
		return p.Data[o:]
	}
	p.ID = u32(bpfInfoID)
	p.BTFID = u32(bpfInfoBTFID)
	if len(p.Info) >= bpfInfoName+bpfInfoNameLen {
		name, _, _ := bytes.Cut(p.Info[bpfInfoName:bpfInfoName+bpfInfoNameLen], []byte{0})
		p.Name = string(name)
	}
	// struct bpf_line_info: insn_off file_name_off line_off line_col. Each has
	// the address of its machine code beside it.
	lines, jited := array(bpfInfoLineInfo), array(bpfInfoJitedLines)
	size, jsize := uint64(u32(bpfInfoLineRecSize)), uint64(u32(bpfInfoJitedRecSize))
	if count := uint64(u32(bpfInfoNrLineInfo)); count == uint64(u32(bpfInfoNrJitedLines)) && size >= 16 && jsize >= 8 &&
		count <= uint64(len(lines))/size && count <= uint64(len(jited))/jsize {
		for i := range count {
			l, j := decode.NewCursor(lines[i*size:], 0, big), decode.NewCursor(jited[i*jsize:], 0, big)
			l.Skip(4, "insn_off")
			x := BPFLine{Addr: j.Uint64("jited_line_info"), File: l.Uint32("file_name_off")}
			x.Text = l.Uint32("line_off")
			col := l.Uint32("line_col")
			x.Line, x.Column = col>>10, col&0x3ff
			p.Lines = append(p.Lines, x)
		}
		slices.SortStableFunc(p.Lines, func(a, b BPFLine) int { return cmp.Compare(a.Addr, b.Addr) })
	}
	const maxFuncs = 1 << 12 // the kernel's BPF_MAX_SUBPROGS is 256
	n := u32(bpfInfoNrKsyms)
	if n > maxFuncs || n != u32(bpfInfoNrProgTags) || n != u32(bpfInfoNrFuncLens) {
		return
	}
	addrs := decode.NewCursor(array(bpfInfoKsyms), 0, big)
	lens := decode.NewCursor(array(bpfInfoFuncLens), 0, big)
	tags := decode.NewCursor(array(bpfInfoProgTags), 0, big)
	if uint64(n) > uint64(addrs.Len()/8) || uint64(n) > uint64(lens.Len()/4) || uint64(n) > uint64(tags.Len()/8) {
		return
	}
	// The code of the functions is in one piece, in the same order.
	var code []byte
	if code = array(bpfInfoJitedInsns); p.Arrays&1 == 0 || uint64(u32(bpfInfoJitedLen)) > uint64(len(code)) {
		code = nil
	}
	code = code[:min(u32(bpfInfoJitedLen), uint32(len(code)))]
	infos := array(bpfInfoFuncInfo)
	rec := uint64(u32(bpfInfoFuncRecSize))
	for i := range int(n) {
		f := BPFFunc{Addr: addrs.Uint64("ksym"), Size: lens.Uint32("func_len")}
		copy(f.Tag[:], tags.Bytes(8, "tag"))
		if o := uint64(i) * rec; rec >= 8 && uint32(i) < u32(bpfInfoNrFuncInfo) && o+8 <= uint64(len(infos)) {
			c := decode.NewCursor(infos[o+4:], 0, big)
			f.Type = c.Uint32("type_id")
		}
		if uint64(f.Size) <= uint64(len(code)) && f.Size > 0 {
			f.Code, code = code[:f.Size:f.Size], code[f.Size:]
		} else {
			code = nil // where the next one begins is not known
		}
		p.Funcs = append(p.Funcs, f)
	}
}

// BPFNames finds the names of the functions of BPF programs. It is for one
// goroutine.
type BPFNames struct {
	btfs  []BTF
	big   bool
	types map[uint32]*btfTypes // by id of the BTF
}

// BPFNames returns what names the functions of f's BPF programs.
func (f *File) BPFNames() *BPFNames {
	btfs, _ := f.BTFs()
	return &BPFNames{btfs: btfs, big: f.hdr.Big, types: map[uint32]*btfTypes{}}
}

// Func returns the name of function i of p as the kernel and perf make it:
// bpf_prog_TAG_name, with the name that the BTF has for it. Without one it is
// that of the program if the function is its only one, or else F.
func (n *BPFNames) Func(p *BPFProg, i int) string {
	f := p.Funcs[i]
	name := "bpf_prog_" + hex.EncodeToString(f.Tag[:])
	short := "F"
	if len(p.Funcs) == 1 {
		short = p.Name
	}
	if p.BTFID != 0 {
		short = cmp.Or(n.btf(p.BTFID).name(f.Type), short)
	}
	if short == "" {
		return name
	}
	return name + "_" + short
}

// Line returns the source line of the machine code at an address of p; ok is
// false if it is unknown.
func (n *BPFNames) Line(p *BPFProg, addr uint64) (file string, line int, ok bool) {
	inside := slices.ContainsFunc(p.Funcs, func(f BPFFunc) bool { return addr-f.Addr < uint64(f.Size) })
	i, _ := slices.BinarySearchFunc(p.Lines, addr, func(l BPFLine, a uint64) int {
		if l.Addr <= a {
			return -1
		}
		return 1
	})
	if i == 0 || !inside || p.Lines[i-1].Line == 0 {
		return "", 0, false
	}
	l := p.Lines[i-1]
	return n.btf(p.BTFID).str(l.File), int(l.Line), true
}

// Texts calls yield for each source line of p whose text the BTF has, until it
// returns false.
func (n *BPFNames) Texts(p *BPFProg, yield func(file string, line int, text string) bool) {
	btf := n.btf(p.BTFID)
	for _, l := range p.Lines {
		file, text := btf.str(l.File), btf.str(l.Text)
		if l.Line > 0 && file != "" && text != "" && !yield(file, int(l.Line), text) {
			return
		}
	}
}

// btf returns the types of a BTF; none if it is not there.
func (n *BPFNames) btf(id uint32) *btfTypes {
	if t, ok := n.types[id]; ok {
		return t
	}
	t := &btfTypes{}
	for i := range n.btfs {
		if n.btfs[i].ID == id {
			t = readBTF(n.btfs[i].Data, n.big)
			break
		}
	}
	n.types[id] = t
	return t
}

func encodeBPFProgs(e *encoder, v []BPFProg) {
	e.u32(uint32(len(v)))
	for _, p := range v {
		e.u32(p.InfoLen)
		e.u32(uint32(len(p.Data)))
		e.u64(p.Arrays)
		e.bytes(p.Info)
		e.bytes(p.Data)
	}
}

func decodeBTFs(c *decode.Cursor) []BTF {
	n := c.Count32(8, "count")
	var v []BTF
	for range n {
		b := BTF{ID: c.Uint32("id")}
		b.Data = bytes.Clone(c.Bytes(c.Length32("size"), "data"))
		if c.Err() != nil {
			break
		}
		v = append(v, b)
	}
	return v
}

func encodeBTFs(e *encoder, v []BTF) {
	e.u32(uint32(len(v)))
	for _, b := range v {
		e.u32(b.ID)
		e.u32(uint32(len(b.Data)))
		e.bytes(b.Data)
	}
}

const btfMagic = 0xeb9f

// btfTypes has the names of the types of a BTF.
type btfTypes struct {
	names []uint32 // offsets in strs, by id from 1
	strs  []byte
}

// maxBTFName is the length of the longest name the kernel has: KSYM_NAME_LEN.
const maxBTFName = 512

// name returns the name of a type; "" if it has none.
func (t *btfTypes) name(id uint32) string {
	if id == 0 || uint64(id) > uint64(len(t.names)) {
		return ""
	}
	return t.str(t.names[id-1])
}

// str returns the string at an offset.
func (t *btfTypes) str(off uint32) string {
	if uint64(off) >= uint64(len(t.strs)) {
		return ""
	}
	s, _, _ := bytes.Cut(t.strs[off:min(uint64(off)+maxBTFName, uint64(len(t.strs)))], []byte{0})
	return string(s)
}

// readBTF reads the types of a BTF, as far as they make sense. Source:
// include/uapi/linux/btf.h.
func readBTF(b []byte, big bool) *btfTypes {
	t := &btfTypes{}
	h := decode.NewCursor(b, 0, big)
	if h.Uint16("magic") != btfMagic {
		return t
	}
	h.Skip(2, "version")
	hdr := h.Length32("hdr_len")
	typeOff, typeLen := h.Uint32("type_off"), h.Uint32("type_len")
	strOff, strLen := h.Uint32("str_off"), h.Uint32("str_len")
	if h.Err() != nil || hdr > len(b) {
		return t
	}
	types := section(b[hdr:], typeOff, typeLen)
	t.strs = section(b[hdr:], strOff, strLen)
	for c := decode.NewCursor(types, 0, big); c.Len() > 0; {
		name, info := c.Uint32("name_off"), c.Uint32("info")
		c.Skip(4, "size")
		c.Skip(btfTail(info), "type")
		if c.Err() != nil {
			break
		}
		t.names = append(t.names, name)
	}
	return t
}

func section(b []byte, off, size uint32) []byte {
	if uint64(off)+uint64(size) > uint64(len(b)) {
		return nil
	}
	return b[off : off+size]
}

// btfTail returns how many bytes follow struct btf_type.
func btfTail(info uint32) int {
	n := int(info & 0xffff)
	switch info >> 24 & 0x1f {
	case 1, 14, 17: // INT, VAR, DECL_TAG
		return 4
	case 3: // ARRAY
		return 12
	case 4, 5, 15, 19: // STRUCT, UNION, DATASEC, ENUM64
		return 12 * n
	case 6, 13: // ENUM, FUNC_PROTO
		return 8 * n
	}
	return 0
}
