package perftest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Text turns a perf.data file into the text from which Build makes the same
// bytes: to look at a file, or to cut a fixture out of a recording. A record
// that no line can express is written as raw, and from one whose size makes
// no sense on, as bytes. The error says where a file is laid out in a way that
// the line file has no words for.
func Text(b []byte) (string, error) {
	t := &texter{b: b, f: &file{order: binary.LittleEndian, headerSize: 104, magic: "PERFILE2"}}
	if err := t.container(); err != nil {
		return "", err
	}
	again, err := Build(t.out.String())
	if err != nil {
		return "", err
	}
	if !bytes.Equal(again, b) {
		i := 0
		for i < min(len(again), len(b)) && again[i] == b[i] {
			i++
		}
		return "", fmt.Errorf("offset %#x: laid out in a way that the text cannot express", i)
	}
	return t.out.String(), nil
}

type texter struct {
	b   []byte
	f   *file
	out strings.Builder
}

func (t *texter) u64(off int) uint64 { return t.f.order.(binary.ByteOrder).Uint64(t.b[off:]) }

// at returns n bytes at off, or an error.
func (t *texter) at(off, n uint64, what string) ([]byte, error) {
	if off > uint64(len(t.b)) || n > uint64(len(t.b))-off {
		return nil, fmt.Errorf("offset %#x: %s: %d bytes wanted, but the file has %d", off, what, n, len(t.b))
	}
	return t.b[off : off+n], nil
}

func (t *texter) container() error {
	if len(t.b) < 16 {
		return errors.New("no perf.data file: too short")
	}
	opts := []string{"file"}
	switch magic := string(t.b[:8]); magic {
	case "PERFILE2":
	case "2ELIFREP":
		t.f.big, t.f.order = true, binary.BigEndian
	case "PERFFILE":
		t.f.magic = magic
		if n := binary.BigEndian.Uint64(t.b[8:]); n < 1<<16 {
			t.f.big, t.f.order = true, binary.BigEndian
		}
		opts = append(opts, "magic=PERFFILE")
	default:
		return fmt.Errorf("no perf.data file: it begins with %q", magic)
	}
	if t.f.big {
		opts = append(opts, "big")
	}
	t.f.headerSize = t.u64(8)
	if t.f.headerSize == 16 {
		t.f.pipe = true
		fmt.Fprintln(&t.out, strings.Join(append(opts, "pipe"), " "))
		if err := t.pipeEvents(); err != nil {
			return err
		}
		t.records(t.b[16:])
		return nil
	}
	if t.f.headerSize != 104 && t.f.headerSize != 72 || uint64(len(t.b)) < t.f.headerSize {
		return fmt.Errorf("offset 0x8: header.size: %d", t.f.headerSize)
	}
	if t.f.headerSize == 72 {
		opts = append(opts, "header_size=72")
	}
	return t.fileMode(opts)
}

// fileMode writes what a file holds that has a header.
func (t *texter) fileMode(opts []string) error {
	t.f.attrSize = t.u64(16)
	attrsOff, attrsSize, dataOff, dataSize := t.u64(24), t.u64(32), t.u64(40), t.u64(48)
	if t.f.attrSize < 80 || t.f.attrSize > 1<<12 {
		return fmt.Errorf("offset 0x10: header.attr_size: %d", t.f.attrSize)
	}
	opts = append(opts, fmt.Sprintf("attr_size=%d", t.f.attrSize))
	attrs, err := t.at(attrsOff, attrsSize, "attrs")
	if err != nil {
		return err
	}
	if attrsOff > dataOff {
		opts = append(opts, "attrs=after")
	} else if attrsOff+attrsSize != dataOff {
		opts = append(opts, fmt.Sprintf("data_offset=%d", dataOff))
	}
	if dataSize == 0 {
		opts = append(opts, "killed")
		dataSize = uint64(len(t.b)) - min(dataOff, uint64(len(t.b)))
		t.f.killed = true
	}
	data, err := t.at(dataOff, dataSize, "data")
	if err != nil {
		return err
	}
	features, spare, err := t.features(dataOff + dataSize)
	if err != nil {
		return err
	}
	if spare > 0 {
		opts = append(opts, fmt.Sprintf("spare=%d", spare))
	}
	fmt.Fprintln(&t.out, strings.Join(opts, " "))
	names := eventNames(t.f, features)
	for i := uint64(0); (i+1)*t.f.attrSize <= attrsSize; i++ {
		entry := attrs[i*t.f.attrSize : (i+1)*t.f.attrSize]
		n := len(entry) - 16
		o := t.f.order.(binary.ByteOrder)
		ids, err := t.at(o.Uint64(entry[n:]), o.Uint64(entry[n+8:]), "ids")
		if err != nil {
			return err
		}
		name := ""
		if int(i) < len(names) {
			name = names[i]
		}
		if err := t.event(name, entry[:n], ids); err != nil {
			return err
		}
	}
	t.records(data)
	for _, ft := range features {
		t.feature(ft)
	}
	return nil
}

// features reads the table of features and what they hold, and finds the
// number of empty slots.
func (t *texter) features(table uint64) (list []feature, spare int, err error) {
	if t.f.headerSize < 104 || t.f.killed {
		return nil, 0, nil
	}
	first := uint64(len(t.b))
	for bit := range 256 {
		if t.u64(72+8*(bit/64))>>(bit%64)&1 == 0 {
			continue
		}
		slot, err := t.at(table, 16, "features")
		if err != nil {
			return nil, 0, err
		}
		o := t.f.order.(binary.ByteOrder)
		body, err := t.at(o.Uint64(slot), o.Uint64(slot[8:]), "feature")
		if err != nil {
			return nil, 0, err
		}
		list = append(list, feature{bit, body})
		first = min(first, o.Uint64(slot))
		table += 16
	}
	if first > table {
		spare = int(first-table) / 16
	}
	return list, spare, nil
}

// eventNames reads the names in the feature EVENT_DESC, as far as they go.
func eventNames(f *file, list []feature) []string {
	i := slices.IndexFunc(list, func(ft feature) bool { return ft.bit == 12 })
	if i < 0 || len(list[i].body) < 8 {
		return nil
	}
	o := f.order.(binary.ByteOrder)
	b := list[i].body
	n, size := o.Uint32(b), uint64(o.Uint32(b[4:]))
	b = b[8:]
	var names []string
	for range n {
		if uint64(len(b)) < size+8 {
			break
		}
		nids, length := uint64(o.Uint32(b[size:])), uint64(o.Uint32(b[size+4:]))
		b = b[size+8:]
		if uint64(len(b)) < length+8*nids {
			break
		}
		name, _, _ := bytes.Cut(b[:length], []byte{0})
		names = append(names, string(name))
		b = b[length+8*nids:]
	}
	return names
}

// pipeEvents takes the events from the HEADER_ATTR records. They stand first
// in all that perf writes.
func (t *texter) pipeEvents() error {
	o := t.f.order.(binary.ByteOrder)
	for b := t.b[16:]; len(b) >= 8; {
		size := int(o.Uint16(b[6:]))
		if size < 8 || size > len(b) {
			break
		}
		if o.Uint32(b) == 64 && size >= 8+64 {
			n := int(o.Uint32(b[12:]))
			if n < 64 || n > size-8 {
				return fmt.Errorf("HEADER_ATTR: attr.size: %d", n)
			}
			if err := t.event("", b[8:8+n], b[8+n:size]); err != nil {
				return err
			}
		}
		b = b[size:]
	}
	return nil
}

// event writes the line of an event, and adds it to the file that record
// lines are tried against.
func (t *texter) event(name string, attr, ids []byte) error {
	o := t.f.order.(binary.ByteOrder)
	full := append(slices.Clone(attr), make([]byte, max(0, 144-len(attr)))...)
	words := []string{"event"}
	words = append(words, quote(name))
	for _, a := range attrFields {
		var v uint64
		switch a.width {
		case 2:
			v = uint64(o.Uint16(full[a.off:]))
		case 4:
			v = uint64(o.Uint32(full[a.off:]))
		case 8:
			v = o.Uint64(full[a.off:])
		}
		switch {
		case a.name == "sample":
			words = append(words, "sample="+joinBits(v, SampleBits))
		case a.name == "read" && v != 0:
			words = append(words, "read="+joinBits(v, ReadBits))
		case a.name == "type", a.name == "sample_period", a.name == "size", v != 0:
			words = append(words, fmt.Sprintf("%s=%d", a.name, v))
		}
	}
	flags := o.Uint64(full[40:])
	if t.f.big {
		p := flags >> 47 & 3
		flags = bits.Reverse64(flags)&^(3<<15) | p<<15
	}
	for i, n := range attrFlags {
		switch {
		case n == "precise_ip":
			if v := flags >> 15 & 3; v != 0 {
				words = append(words, fmt.Sprintf("precise_ip=%d", v))
			}
		case n == "":
		case flags>>i&1 != 0 && n != "sample_id_all":
			words = append(words, n)
		case flags>>i&1 == 0 && n == "sample_id_all":
			words = append(words, "!sample_id_all")
		}
	}
	var list []string
	for ; len(ids) >= 8; ids = ids[8:] {
		list = append(list, fmt.Sprint(o.Uint64(ids)))
	}
	words = append(words, "ids="+strings.Join(list, ","))
	if len(attr) > 144 {
		words = append(words, "tail="+hex.EncodeToString(attr[144:]))
	}
	line := strings.Join(words, " ")
	lines, err := parse(line)
	if err == nil {
		err = lines[0].check(t.f.event(lines[0]))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	e := t.f.events[len(t.f.events)-1]
	if !bytes.Equal(e.attr(t.f.order), attr) {
		return fmt.Errorf("%s: an attr with fields that are not known", line)
	}
	fmt.Fprintln(&t.out, line)
	return nil
}

func joinBits(v uint64, table []string) string {
	var names []string
	for i, n := range table {
		if v>>i&1 != 0 {
			names = append(names, n)
			v &^= 1 << i
		}
	}
	if v != 0 || len(names) == 0 {
		names = append(names, fmt.Sprintf("%#x", v))
	}
	return strings.Join(names, "|")
}

// records writes a line for each record.
func (t *texter) records(data []byte) {
	o := t.f.order.(binary.ByteOrder)
	for len(data) > 0 {
		size := 0
		if len(data) >= 8 {
			size = int(o.Uint16(data[6:]))
		}
		if size < 8 || size > len(data) {
			fmt.Fprintf(&t.out, "bytes hex:%s\n", hex.EncodeToString(data))
			return
		}
		fmt.Fprintln(&t.out, t.record(data[:size]))
		data = data[size:]
	}
}

// record returns the line of a record: the first that makes its bytes.
func (t *texter) record(rec []byte) string {
	o := t.f.order.(binary.ByteOrder)
	typ, misc := o.Uint32(rec), o.Uint16(rec[4:])
	for ev := range t.f.events {
		for _, line := range t.candidates(typ, rec[8:], ev) {
			for _, m := range []string{"", fmt.Sprintf(" misc=%#x", misc)} {
				if t.makes(line+m, rec) {
					return line + m
				}
			}
		}
	}
	return fmt.Sprintf("raw type=%d misc=%#x hex:%s", typ, misc, hex.EncodeToString(rec[8:]))
}

// makes reports whether a line makes these bytes.
func (t *texter) makes(line string, rec []byte) bool {
	lines, err := parse(line)
	if err != nil || len(lines) != 1 {
		return false
	}
	b, err := t.f.record(lines[0])
	return lines[0].check(err) == nil && bytes.Equal(b, rec)
}

// candidates returns lines that may make the body of a record of event ev.
func (t *texter) candidates(typ uint32, body []byte, ev int) []string {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.typ == typ })
	if i < 0 || kinds[i].name == "attr" {
		return []string{fmt.Sprintf("attr ev=%d", ev)}[:b2i(i >= 0)]
	}
	r := &fieldReader{o: t.f.order.(binary.ByteOrder), b: body, big: t.f.big}
	e := t.f.events[ev]
	words := []string{kinds[i].name}
	if ev > 0 {
		words = append(words, fmt.Sprintf("ev=%d", ev))
	}
	if typ == 9 {
		return []string{strings.Join(append(words, r.sample(e)...), " ")}
	}
	if kinds[i].name == "build_id" {
		return r.buildID(words)
	}
	var trailer []string
	if typ < 64 && e.sampleIDAll() {
		trailer = r.trailer(e)
	}
	for _, fd := range strings.Fields(kinds[i].fields) {
		key, code, _ := strings.Cut(fd, ":")
		words = append(words, r.field(key, code, e)...)
	}
	// A key that the record has itself is that of the trailer too; where
	// they differ, the trailer's has another name.
	seen := map[string]string{}
	for _, w := range words[1:] {
		k, v, _ := strings.Cut(w, "=")
		seen[k] = v
	}
	for _, w := range trailer {
		k, v, _ := strings.Cut(w, "=")
		own := map[string]string{"spid": "pid", "stid": "tid", "at": "time"}[k]
		switch {
		case own != "" && seen[own] == v:
		case own == "time" && seen["time"] == "":
			words = append(words, "time="+v)
		default:
			words = append(words, w)
		}
	}
	line := strings.Join(words, " ")
	return []string{line, line + " mode=user", line + " notrailer"}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A fieldReader takes fields off a body. What is not there is zero: whether
// the line is right is seen from what it makes.
type fieldReader struct {
	o   binary.ByteOrder
	b   []byte
	big bool
}

func (r *fieldReader) take(n int) []byte {
	n = max(0, min(n, len(r.b)))
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *fieldReader) num(n int) uint64 {
	b := append(slices.Clone(r.take(n)), make([]byte, n)...)
	switch n {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(r.o.Uint16(b))
	case 4:
		return uint64(r.o.Uint32(b))
	}
	return r.o.Uint64(b)
}

// word is KEY=NUMBER; addresses in hex, small numbers and those that stand
// for -1 in decimal.
func word(key string, v uint64, width int) string {
	switch {
	case width == 4 && v == 0xffffffff, width == 8 && v == ^uint64(0):
		return key + "=-1"
	case v >= 1<<16 && key != "time" && key != "at" && key != "pid" && key != "tid":
		return fmt.Sprintf("%s=%#x", key, v)
	}
	return fmt.Sprintf("%s=%d", key, v)
}

// quote writes a string so that a word can hold it.
func quote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r == '#' || r >= 0x7f }) < 0 {
		return s
	}
	return strconv.Quote(s)
}

var widths = map[string]int{"u8": 1, "u16": 2, "u32": 4, "u64": 8}

// field returns the words of a field of the table.
func (r *fieldReader) field(key, code string, e *event) []string {
	if n := widths[code]; n > 0 {
		return []string{word(key, r.num(n), n)}
	}
	rest := func() []string {
		b := r.take(len(r.b))
		if len(b) == 0 {
			return nil
		}
		return []string{key + "=" + hex.EncodeToString(b)}
	}
	switch {
	case code == "z":
		s, _, _ := bytes.Cut(r.take(len(r.b)), []byte{0})
		return []string{"name=" + quote(string(s))}
	case code == "mmap2id":
		// Which of the two it is, misc says; both are tried by makes.
		return r.mmapID()
	case code == "read":
		return r.read(e)
	case code == "poke":
		b := r.take(len(r.b))
		return []string{"bytes=" + hex.EncodeToString(b)}
	case code == "v64":
		var list []string
		for len(r.b) >= 8 {
			list = append(list, fmt.Sprint(r.num(8)))
		}
		return []string{key + "=" + strings.Join(list, ",")}
	case code == "cpus":
		r.num(2)
		var list []string
		for range r.num(2) {
			list = append(list, fmt.Sprint(r.num(2)))
		}
		return []string{key + "=" + strings.Join(list, ",")}
	case code == "update":
		b := r.take(len(r.b))
		if s, _, ok := bytes.Cut(b, []byte{0}); ok && len(s) > 0 && !bytes.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
			return []string{"name=" + quote(string(s))}
		}
		return []string{"data=" + hex.EncodeToString(b)}
	case strings.HasPrefix(code, "n64("):
		return r.tuples(key, code)
	case code[0] == 'c' || code[0] == 'h' && len(code) > 1 && code != "hp8":
		n, _ := strconv.Atoi(code[1:])
		b := r.take(n)
		if code[0] == 'h' {
			return []string{key + "=" + hex.EncodeToString(b)}
		}
		s, _, _ := bytes.Cut(b, []byte{0})
		return []string{key + "=" + quote(string(s))}
	case code == "outside":
		return nil
	}
	return rest()
}

func (r *fieldReader) tuples(key, code string) []string {
	inner := strings.Split(code[4:len(code)-1], ",")
	var list []string
	for range min(r.num(8), uint64(len(r.b))) {
		var vals []string
		for _, fd := range inner {
			_, c, _ := strings.Cut(fd, ":")
			if n := widths[c]; n > 0 {
				vals = append(vals, fmt.Sprint(r.num(n)))
				continue
			}
			n, _ := strconv.Atoi(c[1:])
			s, _, _ := bytes.Cut(r.take(n), []byte{0})
			vals = append(vals, string(s))
		}
		list = append(list, strings.Join(vals, "/"))
	}
	return []string{key + "=" + quote(strings.Join(list, ","))}
}

// mmapID tells a build id from a device and inode: its first four bytes are
// a length up to 20 and three zeros, and what follows the id is zero.
func (r *fieldReader) mmapID() []string {
	b := r.take(24)
	if len(b) == 24 && b[0] > 0 && b[0] <= 20 && b[1]|b[2]|b[3] == 0 && len(bytes.Trim(b[4+b[0]:], "\x00")) == 0 && !(b[0] == 20 && len(bytes.Trim(b[4:], "\x00")) == 0) {
		if device := r.o.Uint32(b[4:]); device > 1<<12 || b[0] > 8 {
			return []string{"id=" + hex.EncodeToString(b[4:4+b[0]])}
		}
	}
	d := fieldReader{o: r.o, b: b}
	return []string{word("maj", d.num(4), 4), word("min", d.num(4), 4), word("ino", d.num(8), 8), word("gen", d.num(8), 8)}
}

func (r *fieldReader) read(e *event) []string {
	rf := e.vals["read"]
	n := uint64(1)
	first := r.num(8)
	if rf&8 != 0 {
		n = min(first, uint64(len(r.b)))
	}
	var words, list []string
	if rf&1 != 0 {
		words = append(words, fmt.Sprintf("enabled=%d", r.num(8)))
	}
	if rf&2 != 0 {
		words = append(words, fmt.Sprintf("running=%d", r.num(8)))
	}
	for range n {
		v := [3]uint64{first, 0, 0}
		if rf&8 != 0 {
			v[0] = r.num(8)
		}
		if rf&4 != 0 {
			v[1] = r.num(8)
		}
		if rf&16 != 0 {
			v[2] = r.num(8)
		}
		list = append(list, fmt.Sprintf("%d/%d/%d", v[0], v[1], v[2]))
	}
	return append([]string{"read=" + strings.Join(list, ",")}, words...)
}

// buildID returns lines for a build-id record of today's layout and of the
// one before 5.10.
func (r *fieldReader) buildID(words []string) []string {
	pid := r.num(4)
	field := append(slices.Clone(r.take(24)), make([]byte, 24)...)
	s, _, _ := bytes.Cut(r.b, []byte{0})
	tail := fmt.Sprintf(" name=%s", quote(string(s)))
	line := strings.Join(append(words, word("pid", pid, 4)), " ")
	n := min(int(field[20]), 20)
	var lines []string
	for _, id := range []string{"id=" + hex.EncodeToString(field[:n]), "id=" + hex.EncodeToString(field[:20]) + " nosize"} {
		for _, align := range []string{"", " align=64", " align=1"} {
			lines = append(lines, line+" "+id+tail+align)
		}
	}
	return lines
}

// trailer takes the sample_id off the end of the body.
func (r *fieldReader) trailer(e *event) []string {
	n := 0
	for _, bit := range []uint64{bitTID, bitTime, bitID, bitStreamID, bitCPU, bitIdentifier} {
		if e.has(bit) {
			n += 8
		}
	}
	if n > len(r.b) {
		return nil
	}
	t := fieldReader{o: r.o, b: r.b[len(r.b)-n:]}
	r.b = r.b[:len(r.b)-n]
	var words []string
	if e.has(bitTID) {
		words = append(words, word("spid", t.num(4), 4), word("stid", t.num(4), 4))
	}
	if e.has(bitTime) {
		words = append(words, word("at", t.num(8), 8))
	}
	var id uint64
	if e.has(bitID) {
		id = t.num(8)
	}
	if e.has(bitStreamID) {
		words = append(words, word("stream", t.num(8), 8))
	}
	if e.has(bitCPU) {
		words = append(words, word("cpu", t.num(4), 4))
		t.num(4)
	}
	if e.has(bitIdentifier) {
		id = t.num(8)
	}
	if e.has(bitIdentifier|bitID) && id != firstID(e) {
		words = append(words, word("evid", id, 8))
	}
	return words
}

// sample returns the words of a sample.
func (r *fieldReader) sample(e *event) []string {
	var words []string
	add := func(bit uint64, key string, n int) {
		if e.has(bit) {
			words = append(words, word(key, r.num(n), n))
		}
	}
	var id uint64
	if e.has(bitIdentifier) {
		id = r.num(8)
	}
	add(bitIP, "ip", 8)
	add(bitTID, "pid", 4)
	add(bitTID, "tid", 4)
	add(bitTime, "time", 8)
	add(bitAddr, "addr", 8)
	if e.has(bitID) {
		id = r.num(8)
	}
	if id != firstID(e) && e.has(bitID|bitIdentifier) {
		words = append(words, word("evid", id, 8))
	}
	add(bitStreamID, "stream", 8)
	add(bitCPU, "cpu", 4)
	if e.has(bitCPU) {
		if res := r.num(4); res != 0 {
			words = append(words, word("res", res, 4))
		}
	}
	add(bitPeriod, "period", 8)
	if e.has(bitRead) {
		words = append(words, r.read(e)...)
	}
	if e.has(bitCallchain) {
		var list []string
		for range min(r.num(8), uint64(len(r.b)/8)) {
			ip := r.num(8)
			name := fmt.Sprintf("%#x", ip)
			for _, m := range markers {
				if m.ip == ip {
					name = m.name
				}
			}
			list = append(list, name)
		}
		words = append(words, "chain="+strings.Join(list, ","))
	}
	if e.has(bitRaw) {
		words = append(words, "raw="+hex.EncodeToString(r.take(int(r.num(4)))))
	}
	if e.has(bitBranchStack) {
		words = append(words, r.branches(e)...)
	}
	if e.has(bitRegsUser) {
		words = append(words, r.regs(e.vals["sample_regs_user"], "abi", "regs")...)
	}
	if e.has(bitStackUser) {
		n := int(min(r.num(8), uint64(len(r.b))))
		words = append(words, "stack="+hex.EncodeToString(r.take(n)))
		if n > 0 {
			if dyn := r.num(8); dyn != uint64(n) {
				words = append(words, word("dyn", dyn, 8))
			}
		}
	}
	add(bitWeight|bitWeightStruct, "weight", 8)
	add(bitDataSrc, "data_src", 8)
	add(bitTransaction, "txn", 8)
	if e.has(bitRegsIntr) {
		words = append(words, r.regs(e.vals["sample_regs_intr"], "iabi", "iregs")...)
	}
	add(bitPhysAddr, "phys_addr", 8)
	add(bitCgroup, "cgroup", 8)
	add(bitDataPageSize, "data_page", 8)
	add(bitCodePageSize, "code_page", 8)
	if e.has(bitAux) {
		words = append(words, "aux="+hex.EncodeToString(r.take(int(min(r.num(8), uint64(len(r.b)))))))
	}
	return words
}

func (r *fieldReader) regs(mask uint64, abiKey, key string) []string {
	abi := r.num(8)
	if abi == 0 {
		return []string{abiKey + "=0"}
	}
	var list []string
	for range bits.OnesCount64(mask) {
		list = append(list, fmt.Sprintf("%#x", r.num(8)))
	}
	return []string{fmt.Sprintf("%s=%d", abiKey, abi), key + "=" + strings.Join(list, ",")}
}

func (r *fieldReader) branches(e *event) []string {
	n := min(r.num(8), uint64(len(r.b)/24))
	var words, list []string
	if e.vals["branch_sample_type"]>>17&1 != 0 {
		words = append(words, word("hw_idx", r.num(8), 8))
	}
	for range n {
		from, to, flags := r.num(8), r.num(8), r.num(8)
		if r.big {
			flags = littleBranchFlags(flags)
		}
		list = append(list, fmt.Sprintf("%#x>%#x:%#x", from, to, flags))
	}
	words = append(words, "branches="+strings.Join(list, ","))
	if e.vals["branch_sample_type"]>>19&1 != 0 {
		list = nil
		for range n {
			list = append(list, fmt.Sprint(r.num(8)))
		}
		words = append(words, "counters="+strings.Join(list, ","))
	}
	return words
}

// littleBranchFlags is the inverse of bigBranchFlags.
func littleBranchFlags(v uint64) uint64 {
	var out uint64
	at, lo := 64, 0
	for _, width := range []int{1, 1, 1, 1, 16, 4, 2, 4, 3, 31} {
		at -= width
		out |= v >> at & (1<<width - 1) << lo
		lo += width
	}
	return out
}

// feature writes the line of a feature.
func (t *texter) feature(ft feature) {
	name := strconv.Itoa(ft.bit)
	if ft.bit > 0 && ft.bit < len(featureNames) {
		name = featureNames[ft.bit]
	}
	for _, text := range t.featureTexts(name, ft) {
		g := *t.f
		g.features, g.pipe = nil, false
		lines, err := parse(text)
		if err != nil || len(lines) != 1 {
			continue
		}
		if err := lines[0].check(g.feature(lines[0])); err == nil && len(g.features) == 1 && bytes.Equal(g.features[0].body, ft.body) {
			t.out.WriteString(text + "\n")
			return
		}
	}
	fmt.Fprintf(&t.out, "feature %s hex:%s\n", name, hex.EncodeToString(ft.body))
}

// featureTexts returns what may make a feature.
func (t *texter) featureTexts(name string, ft feature) []string {
	r := &fieldReader{o: t.f.order.(binary.ByteOrder), b: ft.body}
	str := func() string {
		s, _, _ := bytes.Cut(r.take(int(r.num(4))), []byte{0})
		return strconv.Quote(string(s))
	}
	switch name {
	case "hostname", "osrelease", "version", "arch", "cpudesc", "cpuid":
		return []string{"feature " + name + " " + str()}
	case "cmdline":
		words := []string{"feature cmdline"}
		for range min(r.num(4), uint64(len(ft.body))) {
			words = append(words, str())
		}
		return []string{strings.Join(words, " ")}
	case "nrcpus":
		return []string{fmt.Sprintf("feature nrcpus u32:%d u32:%d", r.num(4), r.num(4))}
	case "event_desc":
		return []string{"feature event_desc"}
	case "total_mem", "clockid", "dir_format":
		return []string{fmt.Sprintf("feature %s u64:%d", name, r.num(8))}
	case "sample_time":
		return []string{fmt.Sprintf("feature sample_time u64:%d u64:%d", r.num(8), r.num(8))}
	case "build_id":
		return t.buildIDTable(ft.body)
	}
	return nil
}

// buildIDTable writes the table as a block, if its records have sizes that
// make sense.
func (t *texter) buildIDTable(b []byte) []string {
	o := t.f.order.(binary.ByteOrder)
	var s strings.Builder
	s.WriteString("feature build_id {\n")
	for len(b) >= 8 {
		size := int(o.Uint16(b[6:]))
		if size < 8 || size > len(b) {
			return nil
		}
		// In the table the type is 0.
		typ, misc := o.Uint32(b), o.Uint16(b[4:])
		line := fmt.Sprintf("raw type=%d misc=%#x hex:%s", typ, misc, hex.EncodeToString(b[8:size]))
		r := &fieldReader{o: o, b: b[8:size]}
	found:
		for _, c := range r.buildID([]string{"build_id"}) {
			for _, m := range []string{"", fmt.Sprintf(" misc=%#x", misc)} {
				if typ == 0 {
					m += " type=0"
				}
				if t.makes(c+m, b[:size]) {
					line = c + m
					break found
				}
			}
		}
		s.WriteString("\t" + line + "\n")
		b = b[size:]
	}
	if len(b) > 0 {
		return nil
	}
	s.WriteString("}")
	return []string{s.String()}
}
