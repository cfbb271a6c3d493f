package annotate

import (
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/perfark/perfark/disasm"
)

// Schema names the form of what JSON gives.
const Schema = "perfark.annotate/1"

// A Document is what WriteJSON prints: the listings of a recording.
type Document struct {
	Schema    string        `json:"schema"`
	File      string        `json:"file"`
	Events    []DocEvent    `json:"events"`
	Functions []DocFunction `json:"functions"`
	Missing   []DocMissing  `json:"missing"` // functions with samples that cannot be shown
}

// A DocEvent is an event of a Document; Samples and Period are those of the
// whole recording.
type DocEvent struct {
	Name string `json:"name"`
	Count
}

// A DocFunction is a function with its instructions.
type DocFunction struct {
	Symbol  string   `json:"symbol"`
	Linkage string   `json:"linkage,omitempty"`
	Object  string   `json:"object"`
	BuildID string   `json:"build_id,omitempty"`
	Section string   `json:"section,omitempty"`
	Origin  string   `json:"origin"` // the file that the code is from
	Counts  []Count  `json:"counts"` // by event
	Notices []string `json:"notices,omitempty"`

	IPC      float64 `json:"ipc,omitempty"`                  // instructions per cycle, from branch stacks
	Coverage float64 `json:"ipc_coverage_percent,omitempty"` // of its instructions of which that is known

	Lines []DocLine `json:"lines"`
}

// A DocLine is an instruction.
type DocLine struct {
	Addr   uint64     `json:"addr"`  // as the file was linked
	Bytes  string     `json:"bytes"` // hexadecimal
	Text   string     `json:"text"`
	Kind   string     `json:"kind,omitempty"` // jump, branch, call, return or bad; "": another
	Target *uint64    `json:"target,omitempty"`
	Counts []Count    `json:"counts,omitempty"` // by event; none if all are 0
	Frames []DocFrame `json:"frames,omitempty"` // innermost first
	Flow   *DocFlow   `json:"flow,omitempty"`
	IPC    float64    `json:"ipc,omitempty"` // instructions per cycle of the block that it is in
	Cycles *DocCycles `json:"cycles,omitempty"`
}

// A DocFrame is a source line of an instruction, with the text of the line if
// it was found.
type DocFrame struct {
	Frame
	Text string `json:"text,omitempty"`
}

// A DocFlow is a Flow.
type DocFlow struct {
	Entered   float64 `json:"entered_percent,omitempty"`
	Left      float64 `json:"left_percent,omitempty"`
	Predicted float64 `json:"predicted_percent,omitempty"`
}

// A DocCycles is how long code took that ended with a branch: see LineTiming.
type DocCycles struct {
	Average uint64 `json:"average"`
	Min     uint16 `json:"min"`
	Max     uint16 `json:"max"`
}

// A DocMissing says why a function is not shown.
type DocMissing struct {
	Symbol string `json:"symbol"`
	Object string `json:"object"`
	Reason string `json:"reason"`
	Hint   string `json:"hint,omitempty"`
}

var kindNames = [...]string{"", "jump", "branch", "call", "return"}

// Document returns a listing for a Document.
func (l *Listing) Document(o PageOptions) DocFunction {
	d := DocFunction{
		Symbol: utf8Text(l.Func.Name), Linkage: utf8Text(l.Func.Linkage), Object: utf8Text(o.Object.Path), BuildID: o.Object.BuildID.String(),
		Section: utf8Text(l.Section), Origin: utf8Text(l.Origin), Counts: l.Total, Notices: l.Notices, Lines: make([]DocLine, len(l.Lines)),
	}
	timing := o.Cycles.Timing(l)
	if timing != nil {
		d.IPC, d.Coverage = timing.IPC, timing.Coverage
	}
	for i := range l.Lines {
		x := &l.Lines[i]
		y := &d.Lines[i]
		*y = DocLine{Addr: x.Addr, Bytes: hex.EncodeToString(x.Bytes), Text: utf8Text(x.Text), Kind: kindNames[x.Inst.Kind]}
		if x.Inst.Bad {
			y.Kind = "bad"
		}
		if x.Inst.HasTarget && x.Inst.Kind != disasm.Plain {
			y.Target = &x.Inst.Target
		}
		for _, c := range x.Counts {
			if c != (Count{}) {
				y.Counts = x.Counts
			}
		}
		for _, f := range x.Frames {
			df := DocFrame{Frame: Frame{Func: utf8Text(f.Func), File: utf8Text(f.File), Line: f.Line}}
			if o.Source != nil {
				if text := o.Source(f.File); f.Line > 0 && f.Line <= len(text) {
					df.Text = utf8Text(text[f.Line-1])
				}
			}
			y.Frames = append(y.Frames, df)
		}
		if f := o.Runs.At(l.place(x)); f != (Flow{}) {
			y.Flow = &DocFlow{f.Entered, f.Left, f.Predicted}
		}
		if timing != nil {
			t := &timing.Lines[i]
			y.IPC = t.IPC
			if t.Cycles > 0 {
				y.Cycles = &DocCycles{t.Cycles, t.Min, t.Max}
			}
		}
	}
	return d
}

// WriteJSON prints a document.
func WriteJSON(w io.Writer, d *Document) error {
	d.Schema = Schema
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(d)
}

// utf8Text is text in which bytes that are not UTF-8 are replaced.
func utf8Text(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
