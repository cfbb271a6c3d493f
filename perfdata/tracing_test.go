package perfdata

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
)

// format is a tracepoint with a field of each kind.
const format = `name: kinds
ID: 42
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char comm[4];	offset:8;	size:4;	signed:0;
	field:int prio;	offset:12;	size:4;	signed:1;
	field:u16 pair[2];	offset:16;	size:4;	signed:0;
	field:__data_loc char[] path;	offset:20;	size:4;	signed:0;
	field:void * at;	offset:24;	size:8;	signed:0;
	field:unsigned long flags;	offset:32;	size:8;	signed:0;

`

// traced is the raw data of such a tracepoint.
func traced(o binary.AppendByteOrder) []byte {
	b := o.AppendUint16(nil, 42)
	b = append(b, 0, 0)
	b = o.AppendUint32(b, 7)
	b = append(b, "abc\x00"...)
	b = o.AppendUint32(b, 0xfffffffe)
	b = o.AppendUint16(o.AppendUint16(b, 3), 500)
	b = o.AppendUint32(b, 5<<16|40)
	b = o.AppendUint64(b, 0xffffffff81000010)
	b = o.AppendUint64(b, 6)
	return append(b, "/bin\x00"...)
}

// tracingData makes the payload of TRACING_DATA.
func tracingData(o binary.AppendByteOrder, formats ...string) []byte {
	b := []byte("\x17\x08\x44tracing0.6\x00\x00\x08")
	if o == binary.BigEndian {
		b[len(b)-2] = 1
	}
	b = o.AppendUint32(b, 4096)
	for _, h := range []string{"header_page", "header_event"} {
		b = append(append(b, h...), 0)
		b = append(o.AppendUint64(b, 3), "x\ny"...)
	}
	b = o.AppendUint32(b, 0)
	b = append(o.AppendUint32(b, 1), "test\x00"...)
	b = o.AppendUint32(b, uint32(len(formats)))
	for _, f := range formats {
		b = append(o.AppendUint64(b, uint64(len(f))), f...)
	}
	b = o.AppendUint32(b, 0)
	printk := "0xffffffff81000010 : \"said once\"\n"
	return append(o.AppendUint32(b, uint32(len(printk))), printk...)
}

func TestTracing(t *testing.T) {
	tests := []struct{ print, want string }{
		{`"comm=%s prio=%d", REC->comm, REC->prio`, "comm=abc prio=-2"},
		{`"%5d|%-5d|%05u|%#x|%lx", REC->prio, REC->prio, REC->pair[1], REC->pair[0], REC->flags`, "   -2|-2   |00500|0x3|6"},
		{`"%s %p %ps %pS", __get_str(path), REC->at, REC->at, REC->at`, "/bin 0xffffffff81000010 start start+0x10"},
		{`"%s", (char *)REC->at`, "said once"},
		{`"%s|%s|%s", __print_flags(REC->flags, "|", {1, "A"}, {2, "B"}), __print_flags(0, "|", {UNKNOWN, "none"}), __print_flags(REC->flags, "+", { 2, "B"}, { 4, "C" }, { 0, ((void *)0) })`, "B|0x4|none|B+C"},
		{`"%s %s", __print_symbolic(REC->flags, {6, "six"}), __print_symbolic(REC->flags, {NAME, "x"}, {7, "seven"})`, "six 0x6"},
		{`"%d %d %d", REC->flags & 2 ? 1 : 0, (REC->flags >> 1) + 2 * 3, (unsigned char)REC->prio`, "1 9 254"},
		{`"%lu %d%%", (unsigned long)(((1UL))) << (10), sizeof(u64)`, "1024 8%"},
		{`"%s %s", __print_array(REC->pair, 2, 2), __print_hex(__get_dynamic_array(path), 4)`, "{0x3,0x1f4} 2f 62 69 6e"},
		{`"%.*s %*d", 2, REC->comm, 4, REC->prio`, "ab   -2"},
		{"\"two\nlines\"", "two\nlines"},
		{`"%d", mystery(REC->prio)`, "comm=abc prio=-2 pair=[3, 500] path=/bin at=0xffffffff81000010 flags=6"},
	}
	symbol := func(addr uint64) (string, uint64, bool) { return "start", addr - 0xffffffff81000000, true }
	for _, o := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		for _, tt := range tests {
			tr, err := parseTracing(tracingData(o, format+"print fmt: "+tt.print+"\n"), 0)
			if err != nil {
				t.Fatal(err)
			}
			f := tr.Format(42)
			if f == nil || f.Name != "kinds" || f.System != "test" || tr.PageSize != 4096 || tr.Big != (o == binary.BigEndian) {
				t.Fatalf("%+v, %+v", tr, f)
			}
			err = f.Prepare()
			if failed := strings.Contains(tt.print, "mystery"); failed != errors.Is(err, errTracePrint) {
				t.Errorf("%s: error %v", tt.print, err)
			}
			if got := string(f.AppendPrint(nil, traced(o), symbol)); got != tt.want {
				t.Errorf("%v: %s:\n got %q\nwant %q", o, tt.print, got, tt.want)
			}
		}
	}
}

// What is cut off or lies about its sizes ends in an error that names the place;
// what stands before it is there.
func TestTracingDamaged(t *testing.T) {
	whole := tracingData(binary.LittleEndian, format+"print fmt: \"x\"\n")
	for n := range len(whole) {
		if _, err := parseTracing(whole[:n], 0); err == nil {
			t.Fatalf("cut at %d: no error", n)
		}
	}
	for _, tt := range []struct{ in, err string }{
		{"hello", `offset 0x0: magic: "hello" is not that of tracing data`},
		{"\x17\x08\x44tracing0.6", "offset 0xa: version: has no end"},
	} {
		if _, err := parseTracing([]byte(tt.in), 0); err == nil || err.Error() != tt.err {
			t.Errorf("%q: %v, want %s", tt.in, err, tt.err)
		}
	}
	// Raw data shorter than the format says.
	f := parseTraceFormat(format + "print fmt: \"%s %d %s\", REC->comm, REC->prio, __get_str(path)\n")
	f.long = 8
	if err := f.Prepare(); err != nil {
		t.Fatal(err)
	}
	raw := traced(binary.LittleEndian)
	for n := range len(raw) {
		f.AppendPrint(nil, raw[:n], nil)
		f.AppendFields(nil, raw[:n])
	}
}

// Nesting is bounded.
func TestTracingDeep(t *testing.T) {
	for _, s := range []string{strings.Repeat("(", 1e5), strings.Repeat("-", 1e5), strings.Repeat("1?", 1e5), strings.Repeat("(int)", 1e5), strings.Repeat("*", 1e5)} {
		f := parseTraceFormat(format + "print fmt: \"%d\", " + s + "\n")
		if err := f.Prepare(); !errors.Is(err, errTracePrint) {
			t.Errorf("%.10s…: %v", s, err)
		}
	}
}

func FuzzTracing(f *testing.F) {
	for _, o := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		f.Add(tracingData(o, format+"print fmt: \"%s %*d\", __print_flags(REC->flags, \"|\", {1, \"A\"}), 4, REC->prio\n"), traced(o))
	}
	f.Fuzz(func(t *testing.T, data, raw []byte) {
		tr, _ := parseTracing(data, 0)
		for _, x := range tr.formats {
			x.Prepare()
			if len(raw) <= 1<<16 {
				x.AppendPrint(nil, raw, nil)
				x.AppendFields(nil, raw)
				x.Pointers(raw, func(uint64) {})
			}
		}
	})
}
