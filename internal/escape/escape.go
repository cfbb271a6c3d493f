// Package escape makes names from outside safe to print. A file, thread or
// symbol may be named to move the cursor, to change the colours, or to turn
// the text around; what comes out of here shows such bytes instead of sending
// them. It is applied whether or not the output is a terminal: logs are read
// in terminals too.
package escape

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const hex = "0123456789abcdef"

// Name returns s with every byte or character that a terminal may act upon
// written out: C0 controls (newline and tab too), DEL and bytes that are no
// UTF-8 as \x1b; C1 controls, line separators, and the characters that change
// the direction of text or show as nothing as \u202e. A name with nothing of
// that kind is returned as it is. The result is valid UTF-8 in one line.
func Name(s string) string {
	i := unsafeAt(s, false)
	if i < 0 {
		return s
	}
	return escape(s, i, false)
}

// Lines is Name for a message of several lines: newlines and tabs are kept.
func Lines(s string) string {
	i := unsafeAt(s, true)
	if i < 0 {
		return s
	}
	return escape(s, i, true)
}

// JSON writes out in JSON text what Name would in a name, as JSON does:
// \u202e. What the text says stays the same. encoding/json does so itself
// with C0 controls and bytes that are no UTF-8, which it replaces.
func JSON(text []byte) []byte {
	var out []byte
	done := 0
	for i := 0; i < len(text); {
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(text[i:])
		}
		if r == 0x7f || acts(r) {
			out = append(out, text[done:i]...)
			units := [2]rune{r}
			if r > 0xffff {
				units[0], units[1] = utf16.EncodeRune(r)
			}
			for _, u := range units {
				if u != 0 {
					out = append(out, '\\', 'u', hex[u>>12&15], hex[u>>8&15], hex[u>>4&15], hex[u&15])
				}
			}
			done = i + n
		}
		i += n
	}
	if out == nil {
		return text
	}
	return append(out, text[done:]...)
}

// unsafeAt returns the index of the first byte of s to be written out, -1 if
// there is none.
func unsafeAt(s string, lines bool) int {
	for i := plain(s); i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if control(c, lines) {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n <= 1 || acts(r) {
			return i
		}
		i += n
	}
	return -1
}

// plain returns a number of bytes at the beginning of s that are printable
// ASCII, as most names are as a whole: it looks at eight at a time.
func plain(s string) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(s); i += 8 {
		b := s[i : i+8]
		x := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		if (x|(x+ones)|(x-0x20*ones))&high != 0 {
			break
		}
	}
	return i
}

func escape(s string, i int, lines bool) string {
	var b strings.Builder
	b.Grow(len(s) + 16)
	b.WriteString(s[:i])
	for i < len(s) {
		c := s[i]
		if c < utf8.RuneSelf {
			if control(c, lines) {
				hexByte(&b, c)
			} else {
				b.WriteByte(c)
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			hexByte(&b, c)
		case acts(r):
			shift := 12
			if r > 0xffff {
				b.WriteString(`\U`)
				shift = 28
			} else {
				b.WriteString(`\u`)
			}
			for ; shift >= 0; shift -= 4 {
				b.WriteByte(hex[r>>shift&15])
			}
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

func hexByte(b *strings.Builder, c byte) {
	b.WriteString(`\x`)
	b.WriteByte(hex[c>>4])
	b.WriteByte(hex[c&15])
}

// control reports whether an ASCII byte is one to write out.
func control(c byte, lines bool) bool {
	if lines && (c == '\n' || c == '\t') {
		return false
	}
	return c < 0x20 || c == 0x7f
}

// acts reports whether a terminal or a text renderer acts upon r rather than
// showing it: C1 controls, the bidirectional marks, embeddings, overrides and
// isolates of Unicode Standard Annex 9, the line separators, the byte order
// mark. So do characters that show as nothing, by which two names would look
// the same: those of no width, and the tags; and what is no character.
func acts(r rune) bool {
	switch {
	case r >= 0x80 && r <= 0x9f,
		r == 0xad, r == 0x061c, r == 0x180e,
		r >= 0x200b && r <= 0x200f,
		r >= 0x2028 && r <= 0x202e,
		r >= 0x2060 && r <= 0x206f,
		r == 0xfeff,
		r >= 0xfff9 && r <= 0xfffb,
		r >= 0xe0000 && r <= 0xe007f,
		r&0xfffe == 0xfffe:
		return true
	}
	return false
}
