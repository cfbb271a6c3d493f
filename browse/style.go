package browse

import (
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"

	"github.com/perfark/perfark/internal/escape"
)

// What stands around coloured text. Names are escaped before any of it is
// added, so that there is no other control character on the screen.
const (
	reverse    = "\x1b[7m"
	bold       = "\x1b[1m"
	plainText  = "\x1b[m"
	red        = "\x1b[31m"
	green      = "\x1b[32m"
	blue       = "\x1b[34m"
	magenta    = "\x1b[35m"
	cyan       = "\x1b[36m"
	plainColor = "\x1b[39m"
)

// colored returns text in a colour, which ends nothing else.
func (m *Model) colored(color, text string) string {
	if m.o.NoColor || color == "" || text == "" {
		return text
	}
	return color + text + plainColor
}

// heat is the colour of a percentage, as perf has it.
func heat(percent float64) string {
	switch {
	case percent >= 5:
		return red
	case percent >= 0.5:
		return green
	}
	return ""
}

// width is how many columns of the screen a text takes.
func width(s string) int { return ansi.StringWidth(s) }

// pad fills a text up with blanks.
func pad(s string, w int) string {
	if n := w - width(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}

// padLeft is pad, at the left.
func padLeft(s string, w int) string {
	if n := w - width(s); n > 0 {
		return strings.Repeat(" ", n) + s
	}
	return s
}

// cut returns the w columns of a line from column left on. Of a wide character
// that is in part outside nothing is left but a blank.
func cut(s string, left, w int) string {
	if w <= 0 {
		return ""
	}
	if left <= 0 {
		if len(s) <= w && isASCII(s) {
			return s
		}
		if s = ansi.Truncate(s, w, ""); width(s) > w {
			return ""
		}
		return s
	}
	s = ansi.Cut(s, left, left+w)
	if width(s) > w {
		s = ansi.Truncate(s, w, "")
	}
	return s
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// typeable returns a line or more with ? in place of each column of what a
// terminal without UTF-8 would take for several characters, or act upon.
func typeable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
			continue
		}
		b.WriteString(strings.Repeat("?", width(string(r))))
	}
	return b.String()
}

// safe makes text of several lines from elsewhere safe to show: one line each,
// tabs as blanks.
func safe(text string) []string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, s := range lines {
		lines[i] = escape.Name(detab(s))
	}
	return lines
}

// detab puts blanks up to the next multiple of eight in place of tabs.
func detab(s string) string {
	if strings.IndexByte(s, '\t') < 0 {
		return s
	}
	var b strings.Builder
	at := 0
	for _, part := range strings.SplitAfter(s, "\t") {
		text, tab := strings.CutSuffix(part, "\t")
		b.WriteString(text)
		at += width(text)
		if tab {
			n := 8 - at%8
			b.WriteString(strings.Repeat(" ", n))
			at += n
		}
	}
	return b.String()
}

// A glyphs is what lines are drawn with.
type glyphs struct {
	vertical, horizontal, down, up, jumpDown, jumpUp, call, ret, head, dots string
	sparks                                                                  []string
}

var drawn = glyphs{"│", "─", "┌", "└", "↓", "↑", "→", "←", "→", "…", []string{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}}
var typed = glyphs{"|", "-", "+", "+", "v", "^", ">", "<", ">", "...", []string{" ", ".", ":", "-", "=", "+", "*", "#", "@"}}
