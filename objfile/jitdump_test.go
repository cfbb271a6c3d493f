package objfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/decode"
)

// A testJIT writes a jitdump.
type testJIT struct {
	o binary.AppendByteOrder
	b []byte
}

func newTestJIT(big bool) *testJIT {
	j := &testJIT{o: binary.LittleEndian}
	if big {
		j.o = binary.BigEndian
	}
	j.u32(0x4a695444, 1, 40, 62, 0, 77)
	j.u64(5, 0)
	return j
}

func (j *testJIT) u32(v ...uint32) {
	for _, x := range v {
		j.b = j.o.AppendUint32(j.b, x)
	}
}

func (j *testJIT) u64(v ...uint64) {
	for _, x := range v {
		j.b = j.o.AppendUint64(j.b, x)
	}
}

// record writes a record whose body fill writes.
func (j *testJIT) record(id uint32, time uint64, fill func()) {
	at := len(j.b)
	j.u32(id, 0)
	j.u64(time)
	fill()
	size := j.o.AppendUint32(nil, uint32(len(j.b)-at))
	copy(j.b[at+4:], size)
}

func (j *testJIT) load(time, addr, index uint64, name, code string) {
	j.record(0, time, func() {
		j.u32(77, 78)
		j.u64(addr, addr, uint64(len(code)), index)
		j.b = append(append(append(j.b, name...), 0), code...)
	})
}

func (j *testJIT) move(time, from, to, size, index uint64) {
	j.record(1, time, func() {
		j.u32(77, 78)
		j.u64(to, from, to, size, index)
	})
}

// lines writes addresses with lines FILE:LINE; FILE is "" for that before.
func (j *testJIT) lines(code uint64, at []uint64, lines ...string) {
	j.record(2, 1, func() {
		j.u64(code, uint64(len(lines)))
		for i, l := range lines {
			file, n, _ := strings.Cut(l, ":")
			j.u64(at[i])
			var line uint32
			fmt.Sscan(n, &line)
			j.u32(line, 0)
			if file == "" {
				file = "\xff"
			}
			j.b = append(append(j.b, file...), 0)
		}
	})
}

// sample is a dump with everything in it.
func (j *testJIT) sample() {
	j.lines(0x1000, []uint64{0x1000, 0x1004, 0x1006}, "a.js:10", ":11", "b.js:3")
	j.record(4, 1, func() { // to unwind by
		j.u64(6, 2, 6)
		j.b = append(j.b, "ehhehh"...)
	})
	j.load(10, 0x1000, 1, "first", "12345678")
	j.load(20, 0x2000, 2, "Lcom/x;::../../etc", "abcd")
	j.move(30, 0x1000, 0x3000, 8, 1)
	j.load(40, 0x1000, 3, "second", "ABCD")
	j.record(99, 41, func() { j.u64(1) }) // unknown
	j.record(3, 50, func() {})
	j.load(60, 0x9000, 4, "behind the end", "x")
}

// TestJITDump: C15, too: the code of each piece can be read.
func TestJITDump(t *testing.T) {
	for _, big := range []bool{false, true} {
		j := newTestJIT(big)
		j.sample()
		d, err := ReadJITDump(bytes.NewReader(j.b), int64(len(j.b)), nil)
		if err != nil || len(d.Warnings) > 0 {
			t.Fatal(err, d)
		}
		if d.Big != big || d.PID != 77 || d.Machine != MachineX86_64 || d.ArchTime || d.Time != 5 {
			t.Errorf("%+v", d)
		}
		var got []string
		for i := range d.Code {
			c := &d.Code[i]
			n, ok := d.Find(uint64(c.Off) + c.Size - 1)
			code, err := d.Bytes(n)
			if !ok || err != nil {
				t.Error(err)
			}
			got = append(got, fmt.Sprintf("%d %#x %s %s", c.Time, c.Addr, d.Sym(n).Name, code[:c.Size]))
		}
		want := []string{"10 0x1000 first 12345678", "20 0x2000 Lcom/x;::../../etc abcd", "30 0x3000 first 12345678", "40 0x1000 second ABCD"}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		first := uint64(d.Code[0].Off)
		got = nil
		for _, off := range []uint64{first - 1, first, first + 3, first + 4, first + 7, first + 8} {
			file, line, ok := d.Line(off)
			got = append(got, fmt.Sprint(file, line, ok))
		}
		if want := []string{"0 false", "a.js10 true", "a.js10 true", "a.js11 true", "b.js3 true", "0 false"}; !reflect.DeepEqual(got, want) {
			t.Errorf("lines %q, want %q", got, want)
		}
		if u := d.Code[0]; string(j.b[u.Unwind:u.Unwind+u.UnwindSize]) != "ehhehh" || u.UnwindHeader != 2 {
			t.Errorf("unwind %+v", u)
		}
		if c := d.Code[1]; c.Unwind != 0 || c.debug != 0 {
			t.Errorf("what belongs to the code before is of this one, too: %+v", c)
		}
	}
}

// TestJITDumpLines: the lines of V8, whose addresses are those of an ELF file
// that is yet to be made, and which are of no use where a name is broken.
func TestJITDumpLines(t *testing.T) {
	line := func(j *testJIT, off uint64) string {
		d, err := ReadJITDump(bytes.NewReader(j.b), int64(len(j.b)), nil)
		if err != nil {
			t.Fatal(err)
		}
		file, line, _ := d.Line(uint64(d.Code[0].Off) + off)
		return fmt.Sprint(file, ":", line)
	}
	j := newTestJIT(false)
	j.lines(0x1000, []uint64{0x1040, 0x1044}, "a.js:1", "a.js:2")
	j.load(1, 0x1000, 1, "f", "12345678")
	if got := line(j, 3) + " " + line(j, 4); got != "a.js:1 a.js:2" {
		t.Errorf("V8: %s", got)
	}
	j.lines(0x2000, []uint64{0x2000}, "b.js:1")
	j.load(2, 0x2000, 2, "g", "12345678")
	if got := line(j, 3); got != ":0" {
		t.Errorf("not V8: %s", got) // they are outside of the code
	}
	j = newTestJIT(false)
	j.lines(0x1000, []uint64{0x1000, 0x1004}, "a\x00\x00\x00\x00\x00garbage:1", "a.js:2")
	j.load(1, 0x1000, 1, "f", "12345678")
	if got := line(j, 5); got != ":0" {
		t.Errorf("broken name: %s", got)
	}
}

// TestJITDumpHostile: S8. What a dump says about itself is not believed.
func TestJITDumpHostile(t *testing.T) {
	good := func(j *testJIT) { j.load(10, 0x1000, 1, "good", "code") }
	tests := []struct {
		name string
		fill func(j *testJIT)
		want string // names
		warn string
	}{
		{"code_size 2^63", func(j *testJIT) {
			j.record(0, 1, func() {
				j.u32(1, 1)
				j.u64(0x1000, 0x1000, 1<<63, 1)
				j.b = append(j.b, "x\x00"...)
			})
			good(j)
		}, "good", "offset 0x28: 9223372036854775808 bytes of code in a record of 58"},
		{"code at the end of the address space", func(j *testJIT) {
			j.load(1, 1<<64-2, 1, "x", "code")
			good(j)
		}, "good", "offset 0x28: code of 4 bytes at 0xfffffffffffffffe"},
		{"name without an end", func(j *testJIT) {
			j.record(0, 1, func() {
				j.u32(1, 1)
				j.u64(0x1000, 0x1000, 3, 1)
				j.b = append(j.b, "abcdef"...)
			})
			good(j)
		}, "good", "offset 0x28: the name has no end"},
		{"cut off", func(j *testJIT) {
			good(j)
			j.load(2, 0x2000, 2, "cut", "code")
			j.b = j.b[:len(j.b)-1]
		}, "good", "offset 0x69: record of 64 bytes, but only 63 follow: the last one was not written in full"},
		{"record without a size", func(j *testJIT) {
			good(j)
			j.u32(0, 15)
			j.u64(0)
			good(j)
		}, "good", "offset 0x69: record of 15 bytes; reading ends here"},
		{"move of nothing", func(j *testJIT) {
			j.move(1, 0, 0x5000, 4, 7)
			good(j)
		}, "good", "offset 0x28: code 7 was moved, but never loaded"},
		{"move beyond the end", func(j *testJIT) {
			good(j)
			j.move(1, 0, 1<<64-2, 4, 1)
		}, "good", "offset 0x69: 4 bytes of code moved to 0xfffffffffffffffe"},
		{"2^40 lines", func(j *testJIT) {
			j.record(2, 1, func() { j.u64(0x1000, 1<<40) })
			good(j)
		}, "good", "offset 0x28: 1099511627776 lines in 32 bytes"},
		{"2^60 bytes to unwind by", func(j *testJIT) {
			j.record(4, 1, func() { j.u64(1<<60, 0, 0) })
			good(j)
		}, "good", "offset 0x28: 1152921504606846976 bytes to unwind by, 0 of them header, in 40"},
		{"no bytes", func(j *testJIT) {
			j.load(1, 0x1000, 1, "empty", "")
			good(j)
		}, "good", ""},
	}
	for _, tt := range tests {
		for _, big := range []bool{false, true} {
			j := newTestJIT(big)
			tt.fill(j)
			d, err := ReadJITDump(bytes.NewReader(j.b), int64(len(j.b)), nil)
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
				continue
			}
			names := ""
			for i := range d.Len() {
				names += d.Sym(i).Name
			}
			if warn := strings.Join(d.Warnings, "; "); names != tt.want || warn != tt.warn {
				t.Errorf("%s: names %q, warnings %q", tt.name, names, warn)
			}
		}
	}
	for text, want := range map[string]string{
		"": "not a jitdump file: 0 bytes",
		"<html>, and 40 bytes of this and that, so": `not a jitdump file: it begins with "<htm"`,
	} {
		_, err := ReadJITDump(strings.NewReader(text), int64(len(text)), nil)
		if !errors.Is(err, ErrNotJITDump) || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	// What many records cost is asked for.
	j := newTestJIT(false)
	for i := range 1000 {
		j.load(1, 0x1000, uint64(i), "", "x")
	}
	var limit *decode.LimitError
	if _, err := ReadJITDump(bytes.NewReader(j.b), int64(len(j.b)), decode.NewBudget(decode.Limits{Bytes: 10000})); !errors.As(err, &limit) {
		t.Errorf("over the budget: %v", err)
	}
}

func FuzzJITDump(f *testing.F) {
	for _, big := range []bool{false, true} {
		j := newTestJIT(big)
		j.sample()
		f.Add(j.b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := ReadJITDump(bytes.NewReader(b), int64(len(b)), decode.NewBudget(decode.Limits{Bytes: 1 << 24, Steps: 1 << 20}))
		if err != nil {
			return
		}
		for i := range d.Len() {
			s := d.Sym(i)
			if n, ok := d.Find(s.Start); !ok || d.Sym(n).End <= s.Start {
				t.Errorf("symbol %d: %+v is not at its own start", i, s)
			}
			d.Line(s.Start)
			if i < 10 {
				d.Bytes(i)
			}
		}
	})
}
