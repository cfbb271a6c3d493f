package annotate

import (
	"fmt"
	"slices"
	"strings"
)

// precedingLines is how many source lines objdump shows before one that it
// comes to, if they were not shown yet.
const precedingLines = 5

// NoText stands, among the lines of a source file, for one that is not known.
const NoText = "\x00"

// A sourceWalk knows which source lines of a function were shown.
type sourceWalk struct {
	lines   func(file string) []string // of a source file; nil if there is none
	printed map[string]int             // by file: the last line shown
	last    map[string]int             // by file: the line where the code was last
	fn      string
	file    string
	line    int

	calls bool                     // say where inlined code is called
	name  func(file string) string // of a file, as it is printed
	chain string                   // of calls, as it was said last
}

func newSourceWalk(lines func(file string) []string) *sourceWalk {
	return &sourceWalk{lines: lines, printed: map[string]int{}, last: map[string]int{}}
}

// A sourceLine is what stands between instructions.
type sourceLine struct {
	text   string
	number int  // of a source line; 0: another
	place  bool // "FILE:LINE", not a line of source
	call   bool // where inlined code is called
}

// next returns what objdump -S -l prints before an instruction whose frames
// are given: the function and the place if they changed, and the source that
// leads to there.
func (w *sourceWalk) next(frames []Frame) []sourceLine {
	if len(frames) == 0 {
		return nil
	}
	fn := w.fn
	out := w.here(frames)
	if !w.calls {
		return out
	}
	var calls []sourceLine
	chain := ""
	for _, f := range frames[1:] {
		s := "inlined by "
		if f.File != "" && f.Line != 0 {
			s += fmt.Sprintf("%s:%d ", w.name(f.File), f.Line)
		}
		if f.Func != "" {
			s += "(" + f.Func + ")"
		}
		chain += s + "\n"
		calls = append(calls, sourceLine{text: strings.TrimRight(s, " "), call: true})
	}
	if chain == w.chain && w.fn == fn {
		return out
	}
	w.chain = chain
	// Behind the function, or the place if it has one, and before its source.
	at := 0
	if len(out) > 0 && out[0].number == 0 {
		at++
	}
	if len(out) > at && out[at].place {
		at++
	}
	return slices.Insert(out, at, calls...)
}

// here is next without calls.
func (w *sourceWalk) here(frames []Frame) []sourceLine {
	f := frames[0]
	if f.label == "" && f.Func != "" {
		f.label = f.Func + "()"
	}
	if f.Line == 0 && f.label == w.fn {
		return nil
	}
	var out []sourceLine
	if f.label != "" && f.label != w.fn {
		out = append(out, sourceLine{text: f.label + ":"})
		w.fn, w.file, w.line = f.label, "", 0
	}
	if f.Line == 0 || f.File == "" || f.File == w.file && f.Line == w.line {
		return out
	}
	w.file, w.line = f.File, f.Line
	out = append(out, sourceLine{text: fmt.Sprintf("%s:%d", f.File, f.Line), number: f.Line, place: true})
	if w.last[f.File] == f.Line {
		return out
	}
	if w.lines == nil {
		return out
	}
	text := w.lines(f.File)
	from := f.Line - precedingLines
	if from < 1 {
		from = 1
	}
	if shown := w.printed[f.File]; shown >= from {
		if from = shown + 1; shown >= f.Line {
			from = f.Line
		}
	}
	for n := from; n <= f.Line && n <= len(text); n++ {
		if text[n-1] != NoText {
			out = append(out, sourceLine{text: text[n-1], number: n})
		}
	}
	w.printed[f.File] = max(w.printed[f.File], f.Line)
	w.last[f.File] = f.Line
	return out
}
