package redact

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/perfark/perfark/internal/decode"
)

// Parts of tracing data.
const (
	tracingFormat = "format"
	tracingText   = "text"
	savedCmdlines = "saved_cmdlines"
)

var tracingMagic = []byte("\x17\x08\x44tracing")

// walkTracing goes through tracing data and returns it with each text replaced
// by what do returns. What follows the last part is left out.
//
// The layout is that of trace-cmd's files up to version 0.6
// (tools/perf/util/trace-event-info.c).
func walkTracing(b []byte, do func(what string, text []byte) []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, tracingMagic) {
		return nil, &decode.Error{Field: "tracing.magic", Why: fmt.Sprintf("%q is not that of tracing data", b[:min(len(b), len(tracingMagic))])}
	}
	end := bytes.IndexByte(b[len(tracingMagic):], 0)
	if end < 0 || len(b) < len(tracingMagic)+end+3 {
		return nil, &decode.Error{Offset: int64(len(tracingMagic)), Field: "tracing.version", Why: "has no end"}
	}
	version := string(b[len(tracingMagic) : len(tracingMagic)+end])
	at := len(tracingMagic) + end + 1
	big := b[at] != 0
	t := &tracingWalk{c: decode.NewCursor(b[at+2:], int64(at+2), big), do: do}
	t.out = append(t.out, b[:at+2]...)
	t.copy(4, "page_size")
	for _, name := range []string{"header_page", "header_event"} {
		t.copy(len(name)+1, name)
		t.sized64(tracingFormat, name)
	}
	for range t.count32(8, "ftrace.count") {
		t.sized64(tracingFormat, "ftrace.format")
	}
	for range t.count32(5, "systems.count") {
		t.out = append(append(t.out, do(tracingText, []byte(t.c.CString("system")))...), 0)
		for range t.count32(8, "system.count") {
			t.sized64(tracingFormat, "event.format")
			if t.c.Err() != nil {
				return nil, t.c.Err()
			}
		}
	}
	t.sized32("kallsyms")
	t.sized32("printk")
	if v, err := strconv.ParseFloat(version, 64); err == nil && v >= 0.6 && t.c.Len() > 0 {
		t.sized64(savedCmdlines, "saved_cmdlines")
	}
	return t.out, t.c.Err()
}

type tracingWalk struct {
	c   decode.Cursor
	out []byte
	do  func(string, []byte) []byte
}

func (t *tracingWalk) copy(n int, what string) { t.out = append(t.out, t.c.Bytes(n, what)...) }

func (t *tracingWalk) count32(size int, what string) int {
	n := t.c.Count32(size, what)
	t.u32(n)
	return n
}

func (t *tracingWalk) u32(n int) {
	o := order(t.c.Big())
	var b [4]byte
	o.PutUint32(b[:], uint32(n))
	t.out = append(t.out, b[:]...)
}

// sized64 copies a text behind its length in 64 bits.
func (t *tracingWalk) sized64(kind, what string) {
	text := t.do(kind, t.c.Bytes(t.c.Count(1, what+".size"), what))
	var b [8]byte
	order(t.c.Big()).PutUint64(b[:], uint64(len(text)))
	t.out = append(append(t.out, b[:]...), text...)
}

// sized32 copies a text behind its length in 32 bits.
func (t *tracingWalk) sized32(what string) {
	text := t.do(tracingText, t.c.Bytes(t.c.Length32(what+".size"), what))
	t.u32(len(text))
	t.out = append(t.out, text...)
}

// tracingBlob returns tracing data without names.
func (r *Redactor) tracingBlob(b []byte) ([]byte, error) {
	return walkTracing(b, func(what string, text []byte) []byte {
		if what == savedCmdlines {
			return eachComm(text, func(c string) string { return r.text(c, fieldComm) })
		}
		if r.changes(text) {
			r.bytes[fieldTracing]++
			return []byte(r.dict.text(string(text)))
		}
		return text
	})
}

// changes reports whether a word is in a text.
func (r *Redactor) changes(b []byte) bool {
	if !r.dict.built {
		r.dict.build()
	}
	_, _, w := r.dict.find(b, 0, false)
	return w != nil
}

// eachComm replaces the names in saved_cmdlines: lines of a pid and the name of
// a thread.
func eachComm(text []byte, do func(string) string) []byte {
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		pid, comm, ok := strings.Cut(line, " ")
		if !ok {
			out.WriteString(line)
			continue
		}
		name := strings.TrimRight(comm, "\n\x00")
		out.WriteString(pid + " " + do(name) + comm[len(name):])
	}
	return []byte(out.String())
}
