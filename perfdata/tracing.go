package perfdata

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/perfark/perfark/internal/decode"
)

// Tracing is what TRACING_DATA says of the tracepoints of a recording: what is
// in their raw data, and how it is printed.
type Tracing struct {
	Version  string
	Big      bool
	LongSize int // bytes of a long on the machine that recorded
	PageSize int

	formats map[uint64]*TraceFormat
}

// A TraceFormat is a tracepoint: a format file of tracefs.
type TraceFormat struct {
	System, Name string
	ID           uint64 // as in Attr.Config
	Fields       []TraceField
	Print        string // the argument list of printf, as the kernel has it

	big   bool
	long  int
	texts map[uint64]string // strings of the kernel by address
	print *tracePrint
	err   error // why Print cannot be used
}

// A TraceField is a piece of raw data.
type TraceField struct {
	Type, Name   string
	Offset, Size int // bytes
	Signed       bool
	Array        bool
	String       bool // characters
	Dynamic      bool // 32 bits that say where it is: __data_loc
	Relative     bool // counted from behind them: __rel_loc
	Common       bool // one of those that all tracepoints begin with
	elem         int  // bytes of an element of an array
}

// Format returns the tracepoint with an id, nil if there is none.
func (t *Tracing) Format(id uint64) *TraceFormat {
	if t == nil {
		return nil
	}
	return t.formats[id]
}

// Tracing returns the tracepoints of f; nil if it says nothing of them. The
// error is that of the first piece that cannot be read; what stands before it is
// returned.
//
// The layout is that of trace-cmd's files up to version 0.6
// (tools/perf/util/trace-event-info.c).
func (f *File) Tracing() (*Tracing, error) {
	b, off, err := f.FeatureData(FeatureTracingData)
	if err == nil && b == nil && f.tracing.Size > 0 {
		b, off, err = f.piped(f.tracing)
	}
	if err != nil || len(b) == 0 {
		return nil, err
	}
	t, err := parseTracing(b, off)
	if err != nil {
		err = fmt.Errorf("%s: feature TRACING_DATA: %w", f.name, err)
	}
	return t, err
}

// piped reads what follows a TRACING_DATA record of a pipe.
func (f *File) piped(s Section) ([]byte, int64, error) {
	if err := f.budget.Alloc(int64(s.Size), "perf.data: TRACING_DATA"); err != nil {
		return nil, 0, fmt.Errorf("%s: %w", f.name, err)
	}
	b := make([]byte, s.Size)
	n, err := f.r.ReadAt(b, int64(s.Offset))
	if n < len(b) {
		return nil, 0, fmt.Errorf("%s: offset %#x: %w", f.name, s.Offset, err)
	}
	return b, int64(s.Offset), nil
}

var tracingMagic = []byte("\x17\x08\x44tracing")

func parseTracing(b []byte, off int64) (*Tracing, error) {
	t := &Tracing{formats: map[uint64]*TraceFormat{}}
	if !bytes.HasPrefix(b, tracingMagic) {
		return t, &decode.Error{Offset: off, Field: "magic", Why: fmt.Sprintf("%q is not that of tracing data", b[:min(len(b), len(tracingMagic))])}
	}
	rest := b[len(tracingMagic):]
	end := bytes.IndexByte(rest, 0)
	if end < 0 || len(rest) < end+7 {
		return t, &decode.Error{Offset: off + int64(len(tracingMagic)), Field: "version", Why: "has no end"}
	}
	t.Version = string(rest[:end])
	t.Big = rest[end+1] != 0
	t.LongSize = int(rest[end+2])
	if t.LongSize != 4 {
		t.LongSize = 8
	}
	at := len(tracingMagic) + end + 3
	cur := decode.NewCursor(b[at:], off+int64(at), t.Big)
	c := &cur
	t.PageSize = int(c.Uint32("page_size"))
	for _, name := range []string{"header_page", "header_event"} {
		c.Skip(len(name)+1, name)
		c.Bytes(tracingSize(c, name+".size"), name)
	}
	for range c.Count32(8, "ftrace.count") {
		t.add("ftrace", c.Bytes(tracingSize(c, "ftrace.size"), "ftrace.format"))
	}
	for range c.Count32(5, "systems.count") {
		system := c.CString("system")
		for range c.Count32(8, "system.count") {
			if c.Err() != nil {
				return t, c.Err()
			}
			t.add(system, c.Bytes(tracingSize(c, "event.size"), "event.format"))
		}
	}
	c.Bytes(c.Length32("kallsyms.size"), "kallsyms")
	t.addTexts(c.Bytes(c.Length32("printk.size"), "printk_formats"))
	return t, c.Err()
}

// addTexts takes the strings that tracepoints have addresses of: lines of
// printk_formats, 0xADDR : "TEXT".
func (t *Tracing) addTexts(b []byte) {
	texts := map[uint64]string{}
	for line := range strings.Lines(string(b)) {
		addr, quoted, ok := strings.Cut(strings.TrimSpace(line), " : ")
		n, err := strconv.ParseUint(addr, 0, 64)
		if ok && err == nil {
			s := strings.TrimSuffix(strings.TrimPrefix(quoted, `"`), `"`)
			texts[n] = strings.TrimSuffix(s, `\n`)
		}
	}
	for _, f := range t.formats {
		f.texts = texts
	}
}

// tracingSize reads a 64-bit size of what follows.
func tracingSize(c *decode.Cursor, what string) int { return c.Count(1, what) }

// add takes a format file.
func (t *Tracing) add(system string, text []byte) {
	f := parseTraceFormat(string(text))
	if f == nil {
		return
	}
	f.System, f.big, f.long = system, t.Big, t.LongSize
	if _, ok := t.formats[f.ID]; !ok {
		t.formats[f.ID] = f
	}
}

// parseTraceFormat parses a format file; nil if it is none.
func parseTraceFormat(text string) *TraceFormat {
	f := &TraceFormat{}
	known := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "name":
			f.Name = strings.TrimSpace(value)
		case "ID":
			id, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			f.ID, known = id, err == nil
		case "field", "field special":
			if x, ok := parseTraceField(line); ok {
				f.Fields = append(f.Fields, x)
			}
		}
	}
	if !known {
		return nil
	}
	// The last line; strings in it may go over several.
	if _, print, ok := strings.Cut(text, "\nprint fmt:"); ok {
		f.Print = strings.TrimSpace(print)
	}
	return f
}

// parseTraceField parses "field:TYPE NAME; offset:N; size:N; signed:N;".
func parseTraceField(line string) (f TraceField, ok bool) {
	for part := range strings.SplitSeq(line, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), ":")
		n, _ := strconv.Atoi(strings.TrimSpace(value))
		switch key {
		case "field", "field special":
			f.declare(strings.TrimSpace(value))
		case "offset":
			f.Offset = n
		case "size":
			f.Size = n
		case "signed":
			f.Signed = n != 0
		}
	}
	const most = 1 << 16 // raw data is shorter
	if f.Name == "" || f.Offset < 0 || f.Size < 0 || f.Offset > most || f.Size > most {
		return f, false
	}
	f.Common = strings.HasPrefix(f.Name, "common_")
	if f.Array && !f.Dynamic && f.elem == 0 {
		f.elem = f.Size
	}
	return f, true
}

// declare takes a declaration in C, as the kernel prints them.
func (f *TraceField) declare(d string) {
	if i := strings.IndexByte(d, '['); i >= 0 && strings.HasSuffix(d, "]") {
		count, _ := strconv.Atoi(d[i+1 : len(d)-1])
		f.Array = true
		d = d[:i]
		f.elem = -max(count, 0) // until the size is known
	}
	i := strings.LastIndexAny(d, " *")
	f.Type, f.Name = strings.TrimSpace(d[:i+1]), d[i+1:]
	for _, x := range []struct {
		prefix   string
		relative bool
	}{{"__data_loc ", false}, {"__rel_loc ", true}} {
		if rest, ok := strings.CutPrefix(f.Type, x.prefix); ok {
			f.Dynamic, f.Relative = true, x.relative
			f.Type = strings.TrimSuffix(rest, "[]")
		}
	}
	// "__data_loc char[] name" has the brackets in the type.
	f.Type = strings.TrimSuffix(f.Type, "[]")
	char := f.Type == "char" || f.Type == "const char" || f.Type == "signed char" || f.Type == "unsigned char"
	f.String = char && (f.Array || f.Dynamic)
	f.elem = f.elemSize()
}

// elemSize is the size of an element of an array, by its type; 0 if unknown.
func (f *TraceField) elemSize() int {
	switch strings.TrimPrefix(f.Type, "const ") {
	case "char", "u8", "s8", "__u8", "__s8", "unsigned char", "signed char", "uint8_t", "int8_t", "bool":
		return 1
	case "u16", "s16", "__u16", "__s16", "short", "unsigned short", "uint16_t", "int16_t", "__le16", "__be16":
		return 2
	case "u32", "s32", "__u32", "__s32", "int", "unsigned int", "unsigned", "uint32_t", "int32_t", "__le32", "__be32":
		return 4
	case "u64", "s64", "__u64", "__s64", "unsigned long long", "long long", "uint64_t", "int64_t", "unsigned long", "long":
		return 8
	}
	return 0
}

// integer reads the bytes of a number; sign extends it.
func (t *TraceFormat) integer(b []byte, sign bool) uint64 {
	o := order(t.big)
	switch len(b) {
	case 1:
		if sign {
			return uint64(int64(int8(b[0])))
		}
		return uint64(b[0])
	case 2:
		if sign {
			return uint64(int64(int16(o.Uint16(b))))
		}
		return uint64(o.Uint16(b))
	case 4:
		if sign {
			return uint64(int64(int32(o.Uint32(b))))
		}
		return uint64(o.Uint32(b))
	case 8:
		return o.Uint64(b)
	}
	return 0
}

// bytes returns where the data of a field are in raw; nil if they are not all
// there.
func (t *TraceFormat) bytes(raw []byte, f *TraceField) []byte {
	if f.Offset+f.Size > len(raw) {
		return nil
	}
	b := raw[f.Offset : f.Offset+f.Size]
	if !f.Dynamic || len(b) != 4 {
		return b
	}
	v := uint32(t.integer(b, false))
	off, n := int(v&0xffff), int(v>>16)
	if f.Relative {
		off += f.Offset + f.Size
	}
	if off+n > len(raw) {
		return nil
	}
	return raw[off : off+n]
}

func (t *TraceFormat) field(name string) *TraceField {
	for i := range t.Fields {
		if t.Fields[i].Name == name {
			return &t.Fields[i]
		}
	}
	return nil
}

// untilNUL returns the bytes up to the first NUL.
func untilNUL(b []byte) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// AppendFields appends the fields of raw data as NAME=VALUE, without those that
// all tracepoints have.
func (t *TraceFormat) AppendFields(dst, raw []byte) []byte {
	n := len(dst)
	for i := range t.Fields {
		f := &t.Fields[i]
		if f.Common {
			continue
		}
		if len(dst) > n {
			dst = append(dst, ' ')
		}
		dst = append(dst, f.Name...)
		dst = append(dst, '=')
		dst = t.AppendField(dst, raw, f)
	}
	return dst
}

// AppendField appends the value of a field of t, as it is in raw data.
func (t *TraceFormat) AppendField(dst, raw []byte, f *TraceField) []byte {
	b := t.bytes(raw, f)
	switch {
	case b == nil:
		return append(dst, '?')
	case f.String:
		return append(dst, untilNUL(b)...)
	case f.Array || f.Dynamic:
		return t.appendArray(dst, b, f)
	case strings.Contains(f.Type, "*") || f.Size == 8 && !f.Signed && strings.Contains(f.Type, "long") && len(b) == 8 && t.integer(b, false)>>48 != 0:
		return strconv.AppendUint(append(dst, "0x"...), t.integer(b, false), 16)
	case f.Signed:
		return strconv.AppendInt(dst, int64(t.integer(b, true)), 10)
	}
	return strconv.AppendUint(dst, t.integer(b, false), 10)
}

func (t *TraceFormat) appendArray(dst, b []byte, f *TraceField) []byte {
	elem := f.elem
	if elem <= 0 {
		elem = 1
	}
	dst = append(dst, '[')
	for i := 0; i+elem <= len(b); i += elem {
		if i > 0 {
			dst = append(dst, ',', ' ')
		}
		if f.Signed && elem > 1 {
			dst = strconv.AppendInt(dst, int64(t.integer(b[i:i+elem], true)), 10)
		} else {
			dst = strconv.AppendUint(dst, t.integer(b[i:i+elem], false), 10)
		}
	}
	return append(dst, ']')
}
