// Package perftest makes perf.data files from text, turns them back into
// text, and runs the real perf. It is for tests only.
//
// It shares no code with package perfdata, and does not import it: a fixture
// written by the code under test would prove nothing, and perfdata's own
// tests could not use it.
//
// # The text
//
// One line is one thing: the container, an event, a record, a feature. A word
// is KEY=VALUE, or a bare flag. Values with blanks are Go strings in double
// quotes. A # at the start of a word begins a comment. Numbers are decimal or 0x hex and
// may be negative. HEX stands for bytes in hex; xx*N repeats the byte N times;
// pieces are joined by +. Keys that are left out are zero, and an unknown key
// is an error.
//
//	file big pipe magic=PERFFILE attr_size=144 killed
//	event cycles type=0 config=0 freq sample_period=4000 sample=+CALLCHAIN read=ID|LOST ids=7,8
//	mmap2 pid=10 tid=10 start=0x400000 len=0x1000 prot=5 flags=2 id=abcdef name=/bin/x time=5
//	comm pid=10 tid=10 name=x time=6
//	sample ip=0x400123 pid=10 tid=10 time=7 cpu=1 period=4000 chain=user,0x400123,0x400456
//	finished_round
//	raw type=99 misc=0 u32:1 u64:2 hex:00*4
//	feature hostname box
//	feature nrcpus u32:2 u32:2
//	feature build_id {
//		build_id pid=-1 id=0123456789abcdef0123456789abcdef01234567 name=[kernel.kallsyms]
//	}
//
// # file
//
// Optional, and then first. Without it: little-endian, file mode, magic PERFILE2, laid out as
// perf record does it.
//
//	big             big-endian; the flags of an event are stored as such a machine does
//	pipe            16-byte header; events and features are records
//	magic=          8 characters instead of PERFILE2; stored as a number if it is PERFILE2
//	attr_size=N     of an entry of the attrs section: sizeof(struct perf_event_attr)+16;
//	                attrs are N-16 bytes long unless the event says size=
//	header_size=N   72 leaves out the feature bitmap
//	killed          data.size is 0, as when the recorder dies
//	attrs=after     attrs stand after the data, as perf inject writes them
//	data_offset=N   zeros up to there
//	spare=N         N empty slots after the table of features
//	word32          the feature bitmap is an array of 32-bit words
//
// # event
//
// The first word is its name, which only the feature event_desc stores. Keys
// are the fields of struct perf_event_attr, flags its bits, with ! to clear one. Defaults:
// type=1 (software), config=0 (cpu-clock), sample_period=1, sample_id_all, size by file,
// ids=100+index, sample=IDENTIFIER|IP|TID|TIME|CPU|PERIOD. sample= and read= take names
// as perf prints them, joined by |, or a number; a leading + adds to the
// default. tail=HEX sets the bytes of an attr behind the fields known here. A file without an event gets one named cpu-clock.
//
// # Records
//
// Named as in perf_event.h, without PERF_RECORD_ and HEADER_, in lower case;
// their keys are in the table in records.go. Every record takes
//
//	type=N          another type than its name says
//	misc=N          all bits; otherwise they follow from the keys
//	mode=           kernel, user, hypervisor, guest_kernel, guest_user, or unknown: the low bits of misc.
//	                mmap and mmap2: user, or kernel if pid=-1; sample: kernel if the
//	                top bit of ip is set
//	ev=             the event, by name or index, whose sample_type shapes the record; 0
//	evid=           the id written; the first of that event
//	size=N          the size in the header, whatever follows
//	cut=N           leave out the last N bytes, and say so in size
//	tail=HEX        bytes between the body and the trailer
//
// and, if the event has sample_id_all, for its trailer: time (or at, where the record
// has a time of its own), cpu, stream, and spid, stid, which default to pid, tid. With
// notrailer there is none.
//
// sample has a key per bit: ip pid tid time addr evid stream cpu res period weight
// data_src txn phys_addr cgroup data_page code_page, and
//
//	read=           VALUE/ID/LOST, joined by commas; enabled= running=
//	chain=          ips, innermost first; kernel user guest guest_kernel guest_user hv
//	                deferred stand for the context markers
//	raw=HEX aux=HEX
//	branches=       FROM>TO or FROM>TO:FLAGS, newest first; hw_idx= counters=
//	abi= regs=      user registers; iabi= iregs= those at the interrupt; abi is 2 if there are any
//	stack=HEX       the dump; dyn= the size that is valid, all of it by default
//
// # Bytes
//
// raw makes a record of any type from typed pieces: u8 u16 u32 u64 (numbers
// in the file's byte order), str (length, padded to 64, as in features), cstr
// (with its NUL), text (without), hex, pad (zeros up to a multiple of N). bytes does the
// same without a header. feature NAME takes the same pieces; NAME is as in docs/perfdata.md in
// lower case, or the number of its bit. The features that are one string, and cmdline, take
// the strings themselves. feature event_desc and feature build_id { … } without
// pieces are made from the events and from the build_id lines in the block, whose keys are
// pid, id, name, mode, and nosize (the id is 20 bytes and its length not said, as before perf
// 5.10), nopid (as in 2010), nonul, align=N (of the name; 8). In pipe mode, a feature is a record where it stands.
//
// zstd { … } packs the records in the block into COMPRESSED records of at most
// split=N bytes, compressed2 into those of the newer kind; all blocks of a file are one zstd stream.
package perftest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Build makes the perf.data file that text describes. The error names the
// line.
func Build(text string) ([]byte, error) {
	lines, err := parse(text)
	if err != nil {
		return nil, err
	}
	f := &file{order: binary.LittleEndian, headerSize: 104, magic: "PERFILE2"}
	if len(lines) > 0 && lines[0].verb == "file" {
		if err := lines[0].check(f.options(lines[0])); err != nil {
			return nil, err
		}
		lines = lines[1:]
	}
	if err := f.parse(lines); err != nil {
		return nil, err
	}
	return f.encode()
}

// Data is Build for tests: an error in text fails the test.
func Data(t testing.TB, text string) []byte {
	t.Helper()
	b, err := Build(text)
	if err != nil {
		t.Fatalf("perftest: %v", err)
	}
	return b
}

// File writes the file that text describes into the test's directory and
// returns its path.
func File(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "perf.data")
	if err := os.WriteFile(name, Data(t, text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Orders runs fn for text in both byte orders. text has no file line, or one
// that does not say big.
func Orders(t *testing.T, text string, fn func(t *testing.T, data []byte)) {
	t.Helper()
	for _, order := range []string{"little", "big"} {
		t.Run(order, func(t *testing.T) {
			t.Helper()
			fn(t, Data(t, InOrder(text, order == "big")))
		})
	}
}

// InOrder returns text with its file line made to say big, or not.
func InOrder(text string, big bool) string {
	if !big {
		return text
	}
	trimmed := strings.TrimLeft(text, " \t\n")
	if rest, ok := strings.CutPrefix(trimmed, "file"); ok && (rest == "" || strings.ContainsRune(" \t\n", rune(rest[0]))) {
		return "file big" + rest
	}
	return "file big\n" + text
}

// A file is a fixture being built.
type file struct {
	order      binary.AppendByteOrder
	big        bool
	pipe       bool
	killed     bool
	attrsAfter bool
	word32     bool
	magic      string
	attrSize   uint64
	headerSize uint64
	dataOffset uint64
	spare      int

	events   []*event
	data     []byte
	features []feature

	zenc *zstd.Encoder
	zbuf bytes.Buffer
}

type feature struct {
	bit  int
	body []byte
}

func (f *file) options(l *line) error {
	f.big = l.flag("big")
	f.pipe = l.flag("pipe")
	f.killed = l.flag("killed")
	f.word32 = l.flag("word32")
	if f.big {
		f.order = binary.BigEndian
	}
	if m, ok := l.str("magic"); ok {
		if len(m) != 8 {
			return fmt.Errorf("magic %q is not 8 characters long", m)
		}
		f.magic = m
	}
	f.attrSize = l.num("attr_size", 0)
	f.headerSize = l.num("header_size", 104)
	f.dataOffset = l.num("data_offset", 0)
	f.spare = int(l.num("spare", 0))
	where, ok := l.str("attrs")
	if ok && where != "after" {
		return fmt.Errorf("attrs=%q: only after is known", where)
	}
	f.attrsAfter = ok
	return nil
}

// parse takes the events first: records need to know them.
func (f *file) parse(lines []*line) error {
	for _, l := range lines {
		if l.verb == "event" {
			if err := l.check(f.event(l)); err != nil {
				return err
			}
		}
	}
	if len(f.events) == 0 {
		l := &line{verb: "event", pos: []string{"cpu-clock"}}
		if err := f.event(l); err != nil {
			return err
		}
	}
	if f.attrSize == 0 {
		f.attrSize = uint64(len(f.events[0].attr(f.order))) + 16
	}
	if f.pipe && !slices.ContainsFunc(lines, func(l *line) bool { return l.verb == "attr" }) {
		for i := range f.events {
			f.data = append(f.data, f.headerAttr(i)...)
		}
	}
	for _, l := range lines {
		if err := l.check(f.item(l)); err != nil {
			return err
		}
	}
	return nil
}

// item adds what a line stands for.
func (f *file) item(l *line) error {
	switch l.verb {
	case "event":
		return nil
	case "file":
		return fmt.Errorf("must be the first line")
	case "feature":
		return f.feature(l)
	case "zstd", "compressed2":
		return f.zstd(l)
	}
	b, err := f.record(l)
	f.data = append(f.data, b...)
	return err
}

// zstd packs the lines of a block.
func (f *file) zstd(l *line) error {
	if l.block == nil {
		// One COMPRESSED record of given bytes.
		b, err := f.record(l)
		f.data = append(f.data, b...)
		return err
	}
	split := int(l.num("split", 65520-8))
	outer := f.data
	f.data = nil
	for _, in := range l.block {
		if err := in.check(f.item(in)); err != nil {
			return err
		}
	}
	inner := f.data
	f.data = outer
	if f.zenc == nil {
		var err error
		if f.zenc, err = zstd.NewWriter(&f.zbuf, zstd.WithEncoderConcurrency(1)); err != nil {
			return err
		}
	}
	if _, err := f.zenc.Write(inner); err != nil {
		return err
	}
	if err := f.zenc.Flush(); err != nil {
		return err
	}
	for f.zbuf.Len() > 0 {
		part := f.zbuf.Next(split)
		if l.verb == "zstd" {
			f.data = append(f.data, f.head(81, 0, part)...)
			continue
		}
		body := f.order.AppendUint64(nil, uint64(len(part)))
		f.data = append(f.data, f.head(83, 0, pad(append(body, part...), 8))...)
	}
	f.zbuf.Reset()
	return nil
}

// head puts a record header before body.
func (f *file) head(typ uint32, misc uint16, body []byte) []byte {
	b := f.order.AppendUint32(nil, typ)
	b = f.order.AppendUint16(b, misc)
	b = f.order.AppendUint16(b, uint16(8+len(body)))
	return append(b, body...)
}

func (f *file) magicBytes() []byte {
	if f.magic == "PERFILE2" {
		return f.order.AppendUint64(nil, 0x32454c4946524550)
	}
	return []byte(f.magic)
}

// encode lays the file out.
func (f *file) encode() ([]byte, error) {
	if f.pipe {
		b := f.order.AppendUint64(f.magicBytes(), 16)
		return append(b, f.data...), nil
	}
	pos := f.headerSize
	var attrsOff, dataOff uint64
	var body []byte // all behind the header
	attrs := func() {
		ids := make([]uint64, len(f.events))
		for i, e := range f.events {
			ids[i] = pos + uint64(len(body))
			for _, id := range e.ids {
				body = f.order.AppendUint64(body, id)
			}
		}
		attrsOff = pos + uint64(len(body))
		for i, e := range f.events {
			a := e.attr(f.order)
			a = append(a, make([]byte, max(0, int(f.attrSize)-16-len(a)))...)
			body = append(body, a...)
			body = f.order.AppendUint64(body, ids[i])
			body = f.order.AppendUint64(body, uint64(8*len(e.ids)))
		}
	}
	if !f.attrsAfter {
		attrs()
	}
	if f.dataOffset > pos+uint64(len(body)) {
		body = append(body, make([]byte, f.dataOffset-pos-uint64(len(body)))...)
	}
	dataOff = pos + uint64(len(body))
	body = append(body, f.data...)

	// The table of features, one slot for each, then what they hold.
	slices.SortStableFunc(f.features, func(a, b feature) int { return a.bit - b.bit })
	var bitmap [4]uint64
	off := pos + uint64(len(body)) + 16*uint64(len(f.features)+f.spare)
	if f.headerSize >= 104 && !f.killed {
		for _, ft := range f.features {
			body = f.order.AppendUint64(body, off)
			body = f.order.AppendUint64(body, uint64(len(ft.body)))
			off += uint64(len(ft.body))
		}
		body = append(body, make([]byte, 16*f.spare)...)
		for _, ft := range f.features {
			body = append(body, ft.body...)
		}
	}
	for _, ft := range f.features {
		bitmap[ft.bit/64] |= 1 << (ft.bit % 64)
	}
	if f.attrsAfter {
		attrs()
	}

	h := f.magicBytes()
	h = f.order.AppendUint64(h, f.headerSize)
	h = f.order.AppendUint64(h, f.attrSize)
	h = f.order.AppendUint64(h, attrsOff)
	h = f.order.AppendUint64(h, f.attrSize*uint64(len(f.events)))
	h = f.order.AppendUint64(h, dataOff)
	size := uint64(len(f.data))
	if f.killed {
		size = 0
	}
	h = f.order.AppendUint64(h, size)
	h = append(h, make([]byte, 16)...)
	for _, w := range bitmap {
		if f.word32 {
			h = f.order.AppendUint32(h, uint32(w))
			h = f.order.AppendUint32(h, uint32(w>>32))
			continue
		}
		h = f.order.AppendUint64(h, w)
	}
	if uint64(len(h)) > f.headerSize {
		h = h[:f.headerSize]
	}
	h = append(h, make([]byte, f.headerSize-uint64(len(h)))...)
	return append(h, body...), nil
}

// A line is one line of a fixture, with the lines of its block.
type line struct {
	n     int
	verb  string
	pos   []string // words without =
	keys  []string // in order
	vals  map[string]string
	used  map[string]bool
	block []*line
	err   error
}

// parse splits text into lines.
func parse(text string) ([]*line, error) {
	var top []*line
	var open []*line
	for i, s := range strings.Split(text, "\n") {
		words, err := split(s)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if len(words) == 0 {
			continue
		}
		if len(words) == 1 && words[0] == "}" {
			if len(open) == 0 {
				return nil, fmt.Errorf("line %d: } without {", i+1)
			}
			open = open[:len(open)-1]
			continue
		}
		l := &line{n: i + 1, verb: words[0]}
		begins := words[len(words)-1] == "{"
		if begins {
			words = words[:len(words)-1]
			l.block = []*line{}
		}
		for _, w := range words[1:] {
			if err := l.add(w); err != nil {
				return nil, err
			}
		}
		if len(open) > 0 {
			in := open[len(open)-1]
			in.block = append(in.block, l)
		} else {
			top = append(top, l)
		}
		if begins {
			open = append(open, l)
		}
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("line %d: { is not closed", open[0].n)
	}
	return top, nil
}

func (l *line) add(w string) error {
	k, v, ok := strings.Cut(w, "=")
	if !ok || strings.ContainsAny(k, ":\"") || k == "" {
		u, err := unquote(w)
		if err != nil {
			return fmt.Errorf("line %d: %s: %w", l.n, l.verb, err)
		}
		l.pos = append(l.pos, u)
		return nil
	}
	u, err := unquote(v)
	if err != nil {
		return fmt.Errorf("line %d: %s: %s: %w", l.n, l.verb, k, err)
	}
	if l.vals == nil {
		l.vals = map[string]string{}
	}
	if _, ok := l.vals[k]; ok {
		return fmt.Errorf("line %d: %s: %s is there twice", l.n, l.verb, k)
	}
	l.keys = append(l.keys, k)
	l.vals[k] = u
	return nil
}

// unquote takes the quotes off a word, or off what follows its first colon.
func unquote(w string) (string, error) {
	if i := strings.IndexByte(w, '"'); i == 0 || i > 0 && w[i-1] == ':' {
		u, err := strconv.Unquote(w[i:])
		if err != nil {
			return "", fmt.Errorf("%s: not a Go string", w[i:])
		}
		return w[:i] + u, nil
	}
	return w, nil
}

// split cuts a line into words at blanks outside of quotes.
func split(s string) ([]string, error) {
	var words []string
	for {
		s = strings.TrimLeft(s, " \t\r")
		if s == "" || s[0] == '#' {
			return words, nil
		}
		i := 0
		for quoted := false; i < len(s) && (quoted || s[i] != ' ' && s[i] != '\t' && s[i] != '\r'); i++ {
			switch {
			case quoted && s[i] == '\\':
				i++
			case s[i] == '"':
				quoted = !quoted
			}
			if i+1 >= len(s) && quoted {
				return nil, fmt.Errorf("quote is not closed")
			}
		}
		words = append(words, s[:min(i, len(s))])
		s = s[min(i, len(s)):]
	}
}

// check returns err, or the first defect met while reading l, or complains of
// keys that nobody asked for.
func (l *line) check(err error) error {
	if err == nil {
		err = l.err
	}
	if err == nil {
		for _, k := range l.keys {
			if !l.used[k] {
				err = fmt.Errorf("unknown key %s", k)
				break
			}
		}
	}
	if err == nil && len(l.pos) > 0 && l.verb != "feature" {
		err = fmt.Errorf("unknown word %q", l.pos[0])
	}
	if err != nil && l.n > 0 && !strings.HasPrefix(err.Error(), "line ") {
		return fmt.Errorf("line %d: %s: %w", l.n, l.verb, err)
	}
	return err
}

func (l *line) str(key string) (string, bool) {
	if l.used == nil {
		l.used = map[string]bool{}
	}
	l.used[key] = true
	v, ok := l.vals[key]
	return v, ok
}

// flag reports and consumes a bare word.
func (l *line) flag(name string) bool {
	if i := slices.Index(l.pos, name); i >= 0 {
		l.pos = slices.Delete(l.pos, i, i+1)
		return true
	}
	return false
}

func (l *line) fail(key string, err error) {
	if l.err == nil {
		l.err = fmt.Errorf("%s: %w", key, err)
	}
}

func (l *line) num(key string, def uint64) uint64 {
	s, ok := l.str(key)
	if !ok {
		return def
	}
	n, err := number(s)
	if err != nil {
		l.fail(key, err)
	}
	return n
}

func (l *line) nums(key string) []uint64 {
	s, ok := l.str(key)
	if !ok || s == "" {
		return nil
	}
	var out []uint64
	for _, w := range strings.Split(s, ",") {
		n, err := number(w)
		if err != nil {
			l.fail(key, err)
		}
		out = append(out, n)
	}
	return out
}

func (l *line) hex(key string) []byte {
	s, ok := l.str(key)
	if !ok {
		return nil
	}
	b, err := hexBytes(s)
	if err != nil {
		l.fail(key, err)
	}
	return b
}

func number(s string) (uint64, error) {
	if strings.HasPrefix(s, "-") {
		n, err := strconv.ParseInt(s, 0, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number", s)
		}
		return uint64(n), nil
	}
	n, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return n, nil
}

// hexBytes reads pieces of hex joined by +; a piece ending in *N repeats its
// last byte.
func hexBytes(s string) ([]byte, error) {
	var out []byte
	for _, piece := range strings.Split(s, "+") {
		digits, times, repeat := strings.Cut(piece, "*")
		if len(digits)%2 != 0 {
			return nil, fmt.Errorf("%q: odd number of hex digits", piece)
		}
		for i := 0; i < len(digits); i += 2 {
			n, err := strconv.ParseUint(digits[i:i+2], 16, 8)
			if err != nil {
				return nil, fmt.Errorf("%q is not hex", piece)
			}
			out = append(out, byte(n))
		}
		if repeat {
			n, err := strconv.Atoi(times)
			if err != nil || n < 1 || n > 1<<24 || len(digits) == 0 {
				return nil, fmt.Errorf("%q: bad repeat", piece)
			}
			out = append(out, bytes.Repeat(out[len(out)-1:], n-1)...)
		}
	}
	return out, nil
}

// pad adds zeros up to a multiple of n.
func pad(b []byte, n int) []byte {
	return append(b, make([]byte, (n-len(b)%n)%n)...)
}

// pieces encodes typed words such as u32:5.
func (f *file) pieces(words []string) ([]byte, error) {
	var b []byte
	for _, w := range words {
		kind, v, ok := strings.Cut(w, ":")
		if !ok {
			return nil, fmt.Errorf("%q: want kind:value, as u32:5", w)
		}
		var n uint64
		var err error
		switch kind {
		case "u8", "u16", "u32", "u64", "pad":
			n, err = number(v)
		}
		if err != nil {
			return nil, err
		}
		switch kind {
		case "u8":
			b = append(b, byte(n))
		case "u16":
			b = f.order.AppendUint16(b, uint16(n))
		case "u32":
			b = f.order.AppendUint32(b, uint32(n))
		case "u64":
			b = f.order.AppendUint64(b, n)
		case "pad":
			if n == 0 || n > 1<<16 {
				return nil, fmt.Errorf("%q: bad alignment", w)
			}
			b = pad(b, int(n))
		case "str":
			b = append(b, f.featureString(v)...)
		case "cstr":
			b = append(append(b, v...), 0)
		case "text":
			b = append(b, v...)
		case "hex":
			h, err := hexBytes(v)
			if err != nil {
				return nil, err
			}
			b = append(b, h...)
		default:
			return nil, fmt.Errorf("%q: unknown kind", w)
		}
	}
	return b, nil
}

// featureString encodes a string as features hold it.
func (f *file) featureString(s string) []byte {
	body := pad(append([]byte(s), 0), 64)
	return append(f.order.AppendUint32(nil, uint32(len(body))), body...)
}

// featureNames is the order of the bits.
var featureNames = []string{
	"", "tracing_data", "build_id", "hostname", "osrelease", "version", "arch", "nrcpus", "cpudesc", "cpuid",
	"total_mem", "cmdline", "event_desc", "cpu_topology", "numa_topology", "branch_stack", "pmu_mappings",
	"group_desc", "auxtrace", "stat", "cache", "sample_time", "mem_topology", "clockid", "dir_format",
	"bpf_prog_info", "bpf_btf", "compressed", "cpu_pmu_caps", "clock_data", "hybrid_topology", "pmu_caps",
	"cpu_domain_info", "e_machine", "cln_size",
}

func (f *file) feature(l *line) error {
	if len(l.pos) == 0 {
		return fmt.Errorf("no name")
	}
	name, args := l.pos[0], l.pos[1:]
	l.pos = nil
	bit := slices.Index(featureNames, name)
	if bit < 0 {
		n, err := strconv.Atoi(name)
		if err != nil || n < 0 || n > 255 {
			return fmt.Errorf("no feature is called %q", name)
		}
		bit = n
	}
	var body []byte
	var err error
	switch {
	case l.block != nil:
		for _, in := range l.block {
			b, e := f.record(in)
			if e = in.check(e); e != nil {
				return e
			}
			body = append(body, b...)
		}
	case name == "event_desc" && len(args) == 0:
		body = f.eventDesc()
	case name == "cmdline" && len(args) > 0 && !strings.Contains(args[0], "32:"):
		body = f.order.AppendUint32(nil, uint32(len(args)))
		for _, a := range args {
			body = append(body, f.featureString(a)...)
		}
	case slices.Contains([]string{"hostname", "osrelease", "version", "arch", "cpudesc", "cpuid"}, name) && len(args) == 1 && !typed(args[0]):
		body = f.featureString(args[0])
	default:
		body, err = f.pieces(args)
	}
	if err != nil {
		return err
	}
	if f.pipe {
		f.data = append(f.data, f.head(80, 0, append(f.order.AppendUint64(nil, uint64(bit)), body...))...)
		return nil
	}
	f.features = append(f.features, feature{bit, body})
	return nil
}

// typed reports whether w is a typed piece rather than text.
func typed(w string) bool {
	kind, _, ok := strings.Cut(w, ":")
	return ok && slices.Contains([]string{"u8", "u16", "u32", "u64", "pad", "str", "cstr", "text", "hex"}, kind)
}

func (f *file) eventDesc() []byte {
	b := f.order.AppendUint32(nil, uint32(len(f.events)))
	size := 0
	for _, e := range f.events {
		size = max(size, len(e.attr(f.order)))
	}
	b = f.order.AppendUint32(b, uint32(size))
	for _, e := range f.events {
		a := e.attr(f.order)
		b = append(b, append(a, make([]byte, size-len(a))...)...)
		b = f.order.AppendUint32(b, uint32(len(e.ids)))
		b = append(b, f.featureString(e.name)...)
		for _, id := range e.ids {
			b = f.order.AppendUint64(b, id)
		}
	}
	return b
}

// Reader returns r with no other methods, for functions that look for them.
func Reader(r io.Reader) io.Reader { return struct{ io.Reader }{r} }
