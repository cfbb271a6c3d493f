package main

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// bpfRecording returns a recording with a BPF program of two functions, whose
// names, files and lines its BTF has. Of the first, the kernel said where it
// was loaded; of the second, only the description of the program.
func bpfRecording(t *testing.T, big bool) []byte {
	var o binary.AppendByteOrder = binary.LittleEndian
	if big {
		o = binary.BigEndian
	}
	u32 := func(b []byte, v ...uint32) []byte {
		for _, x := range v {
			b = o.AppendUint32(b, x)
		}
		return b
	}
	u64 := func(b []byte, v ...uint64) []byte {
		for _, x := range v {
			b = o.AppendUint64(b, x)
		}
		return b
	}
	const first, second = 0xffffffffc0500000, 0xffffffffc0500100
	strs := []byte("\x00prog_main\x00helper\x00prog.c\x00\treturn helper(n);\x00")
	// Two types: functions (kind 12), prog_main and helper.
	types := u32(nil, 1, 12<<24, 0, 11, 12<<24, 0)
	btf := o.AppendUint16(nil, 0xeb9f)
	btf = append(btf, 1, 0)
	btf = u32(btf, 24, 0, uint32(len(types)), uint32(len(types)), uint32(len(strs)))
	btf = append(append(btf, types...), strs...)

	var data []byte
	at := map[string]uint64{}
	add := func(name string, b []byte) {
		for len(data)%8 != 0 {
			data = append(data, 0)
		}
		at[name] = uint64(len(data))
		data = append(data, b...)
	}
	add("ksyms", u64(nil, first, second))
	add("lens", u32(nil, 0x80, 0x40))
	// Of the first function: a return; of the second, a jump into the kernel.
	code := make([]byte, 0xc0)
	for i := range code {
		code[i] = 0x90
	}
	code[0x24] = 0xc3
	copy(code[0x88:], "\xe9\x03\xff\xaf\xc0")
	add("code", code)
	add("tags", []byte("\x11\x11\x11\x11\x11\x11\x11\x11\x22\x22\x22\x22\x22\x22\x22\x22"))
	add("funcs", u32(nil, 0, 1, 8, 2))
	add("lines", u32(nil, 0, 18, 0, 10<<10|3, 4, 18, 25, 12<<10, 8, 18, 0, 30<<10))
	add("jited", u64(nil, first, first+0x20, second))
	info := make([]byte, 192)
	p32 := func(off int, v uint32) { copy(info[off:], u32(nil, v)) }
	p64 := func(off int, v uint64) { copy(info[off:], u64(nil, v)) }
	p32(4, 7)
	p32(16, uint32(len(code)))
	p64(24, at["code"])
	p32(104, 2)
	p32(108, 2)
	p64(112, at["ksyms"])
	p64(120, at["lens"])
	p32(128, 5)
	p32(132, 8)
	p64(136, at["funcs"])
	p32(144, 2)
	p32(148, 3)
	p64(152, at["lines"])
	p64(160, at["jited"])
	p32(168, 3)
	p32(172, 16)
	p32(176, 8)
	p32(180, 2)
	p64(184, at["tags"])
	order := ""
	if big {
		order = "file big\n"
	}
	return perftest.Data(t, order+fmt.Sprintf(`event cycles
mmap pid=-1 tid=0 start=0xffffffff81000000 len=0x1000000 pgoff=0xffffffff81000000 name=[kernel.kallsyms]_text
comm pid=5 tid=5 name=x
ksymbol addr=%#x len=0x80 kind=1 name=bpf_prog_1111111111111111_prog_main time=1
sample pid=5 tid=5 period=4 time=2 ip=%#x
sample pid=5 tid=5 period=3 time=2 ip=%#x
sample pid=5 tid=5 period=2 time=2 ip=%#x
sample pid=5 tid=5 period=1 time=2 ip=%#x
feature arch x86_64
feature bpf_prog_info u32:1 u32:%d u32:%d u64:1 hex:%x hex:%x
feature bpf_btf u32:1 u32:5 u32:%d hex:%x
`, uint64(first), uint64(first+4), uint64(first+0x24), uint64(second+8), uint64(second+0x40), len(info), len(data), info, data, len(btf), btf))
}

// TestBPF: BPF programs have their names, from where the kernel said that they
// were loaded, and from the descriptions that perf record writes; and lines.
func TestBPF(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, big := range []bool{false, true} {
		data := bpfRecording(t, big)
		check := func(key, want string) {
			code, out, stderr := runArgs(t, string(data), "report", "-i", "-", "--stdio", "--no-children", "-s", key)
			got := ""
			for line := range strings.Lines(rows(out)) {
				f := strings.Fields(line)
				got += f[0] + " " + f[len(f)-1] + "\n"
			}
			if code != 0 || got != want {
				t.Errorf("big %v, %s: exit status %d\n%s\nwant\n%s\n%s", big, key, code, out, want, stderr)
			}
		}
		check("sym", "70.00% bpf_prog_1111111111111111_prog_main\n20.00% bpf_prog_2222222222222222_helper\n10.00% 0xffffffffc0500140\n")
		check("srcline", "40.00% prog.c:10\n30.00% prog.c:12\n20.00% prog.c:30\n10.00% ??:0\n")
	}
}
