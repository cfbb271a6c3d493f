package objfile

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// rustLegacy demangles a name of the first scheme of rustc, which looks like
// a C++ name: _ZN, path elements as length and bytes, the last of which is
// a hash, E. The hash is not printed. What stands behind E is dropped.
func rustLegacy(name string) (string, bool) {
	s, ok := strings.CutPrefix(name, "_ZN")
	if !ok {
		return "", false
	}
	var elems []string
	for !strings.HasPrefix(s, "E") {
		n := 0
		for n < len(s) && n < 6 && '0' <= s[n] && s[n] <= '9' {
			n++
		}
		size, err := strconv.Atoi(s[:n])
		if err != nil || s[0] == '0' || size > len(s)-n {
			return "", false
		}
		elems = append(elems, s[n:n+size])
		s = s[n+size:]
	}
	if len(elems) < 2 || !isRustHash(elems[len(elems)-1]) || len(s) > 1 && s[1] != '.' {
		return "", false
	}
	var sb strings.Builder
	for i, e := range elems[:len(elems)-1] {
		if i > 0 {
			sb.WriteString("::")
		}
		legacyElem(&sb, e)
	}
	return sb.String(), true
}

// isRustHash reports whether s is h and 16 hex digits, of which some differ:
// a C++ function may have a name like that.
func isRustHash(s string) bool {
	if len(s) != 17 || s[0] != 'h' {
		return false
	}
	var seen uint16
	for i := 1; i < len(s); i++ {
		v, n := hexDigits([]byte{s[i]})
		if n == 0 || 'A' <= s[i] && s[i] <= 'F' {
			return false
		}
		seen |= 1 << v
	}
	n := 0
	for ; seen != 0; seen &= seen - 1 {
		n++
	}
	return n >= 5
}

var legacyEscapes = map[string]string{"SP": "@", "BP": "*", "RF": "&", "LT": "<", "GT": ">", "LP": "(", "RP": ")", "C": ","}

// legacyElem writes a path element, in which what no symbol may have is
// written as $..$ or with dots.
func legacyElem(sb *strings.Builder, e string) {
	if strings.HasPrefix(e, "_$") {
		e = e[1:] // a name must not begin with $
	}
	for e != "" {
		i := strings.IndexAny(e, "$.")
		if i < 0 {
			break
		}
		sb.WriteString(e[:i])
		e = e[i:]
		if e[0] == '.' {
			if strings.HasPrefix(e, "..") {
				sb.WriteString("::")
				e = e[2:]
				continue
			}
			sb.WriteByte('.')
			e = e[1:]
			continue
		}
		esc, rest, ok := strings.Cut(e[1:], "$")
		if !ok {
			break
		}
		if c, ok := legacyEscapes[esc]; ok {
			sb.WriteString(c)
		} else if v, n := hexDigits([]byte(strings.TrimPrefix(esc, "u"))); len(esc) > 1 && esc[0] == 'u' && n == len(esc)-1 && v < utf8.MaxRune && v >= ' ' {
			sb.WriteRune(rune(v))
		} else {
			break // no escape: the rest stands as it is
		}
		e = rest
	}
	sb.WriteString(e)
}

// Limits of names of the second scheme, whose back references can make a
// short name long.
const (
	maxRustDepth = 500
	maxRustSteps = 1 << 16
)

var errRust = errors.New("not a Rust v0 name")

// rustV0 demangles a name of the second scheme of rustc, _R and a path. Hashes
// of crates and types of constants are not printed. What stands behind the
// first dot is dropped.
//
// Source: RFC 2603, and "Symbol Mangling" in the rustc book.
func rustV0(name string) (string, bool) {
	s, ok := strings.CutPrefix(name, "_R")
	if !ok {
		return "", false
	}
	s, _, _ = strings.Cut(s, ".")
	if s == "" || s[0] < 'A' || s[0] > 'Z' {
		return "", false // a later version, or something else
	}
	for i := range len(s) {
		if c := s[i]; c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return "", false
		}
	}
	d := rustDemangler{s: s}
	d.path(true)
	if d.err == nil && d.pos < len(s) {
		d.quiet++ // the crate that instantiated it
		d.path(false)
	}
	if d.err != nil || d.pos != len(s) {
		return "", false
	}
	return d.out.String(), true
}

// A rustDemangler reads s and writes out. After an error all does nothing.
type rustDemangler struct {
	s     string
	pos   int
	out   strings.Builder
	quiet int // above 0, nothing is written
	depth int
	steps int
	bound uint64 // lifetimes bound by the binders around
	err   error
}

func (d *rustDemangler) fail() { d.err = errRust }

func (d *rustDemangler) print(s string) {
	if d.quiet == 0 && d.err == nil {
		if d.out.Len()+len(s) > maxDemangled {
			d.fail()
			return
		}
		d.out.WriteString(s)
	}
}

// next returns the next byte, 0 at the end.
func (d *rustDemangler) next() byte {
	if d.err != nil || d.pos >= len(d.s) {
		d.fail()
		return 0
	}
	d.pos++
	return d.s[d.pos-1]
}

func (d *rustDemangler) peek() byte {
	if d.err != nil || d.pos >= len(d.s) {
		return 0
	}
	return d.s[d.pos]
}

func (d *rustDemangler) eat(c byte) bool {
	if d.peek() != c || c == 0 {
		return false
	}
	d.pos++
	return true
}

// enter counts a step into a nested production; leave undoes it.
func (d *rustDemangler) enter() bool {
	d.depth++
	d.steps++
	if d.depth > maxRustDepth || d.steps > maxRustSteps {
		d.fail()
	}
	return d.err == nil
}

func (d *rustDemangler) leave() { d.depth-- }

// number62 reads base-62 digits and their _: nothing is 0, 0 is 1, and so on.
func (d *rustDemangler) number62() uint64 {
	if d.eat('_') {
		return 0
	}
	v := uint64(0)
	for {
		c := d.next()
		var x uint64
		switch {
		case c == '_':
			if v == math.MaxUint64 {
				d.fail()
			}
			return v + 1
		case '0' <= c && c <= '9':
			x = uint64(c - '0')
		case 'a' <= c && c <= 'z':
			x = uint64(c-'a') + 10
		case 'A' <= c && c <= 'Z':
			x = uint64(c-'A') + 36
		default:
			d.fail()
			return 0
		}
		if v > (math.MaxUint64-x)/62 {
			d.fail()
			return 0
		}
		v = v*62 + x
	}
}

// tagged reads a number behind a tag: 0 if the tag is not there.
func (d *rustDemangler) tagged(tag byte) uint64 {
	if !d.eat(tag) {
		return 0
	}
	v := d.number62()
	if v == math.MaxUint64 {
		d.fail()
		return 0
	}
	return v + 1
}

// ident reads an identifier. Its length is decimal and never has a leading
// zero: "012" is an empty identifier and what follows it.
func (d *rustDemangler) ident() string {
	puny := d.eat('u')
	n := 0
	if !d.eat('0') {
		for c := d.peek(); '0' <= c && c <= '9'; c = d.peek() {
			n = n*10 + int(c-'0')
			if n > len(d.s) {
				d.fail()
				return ""
			}
			d.pos++
		}
		if n == 0 {
			d.fail()
			return ""
		}
	}
	d.eat('_')
	if d.err != nil || n > len(d.s)-d.pos {
		d.fail()
		return ""
	}
	id := d.s[d.pos : d.pos+n]
	d.pos += n
	if puny {
		u, ok := punycode(id)
		if !ok {
			d.fail()
		}
		return u
	}
	return id
}

// backref runs f at the place that a back reference points to, which must be
// before it.
func (d *rustDemangler) backref(f func()) {
	at := d.pos - 1
	to := d.number62()
	if d.err != nil || to >= uint64(at) {
		d.fail()
		return
	}
	if d.quiet > 0 {
		return
	}
	back := d.pos
	d.pos = int(to)
	f()
	d.pos = back
}

// path reads a path; value says that it is one of a value, where generic
// arguments need :: before them.
func (d *rustDemangler) path(value bool) {
	if !d.enter() {
		return
	}
	defer d.leave()
	switch tag := d.next(); tag {
	case 'C':
		d.tagged('s')
		d.print(d.ident())
	case 'N':
		ns := d.next()
		d.path(value)
		dis := d.tagged('s')
		name := d.ident()
		switch {
		case 'A' <= ns && ns <= 'Z':
			d.print("::{")
			switch ns {
			case 'C':
				d.print("closure")
			case 'S':
				d.print("shim")
			default:
				d.print(string(ns))
			}
			if name != "" {
				d.print(":" + name)
			}
			d.print("#" + strconv.FormatUint(dis, 10) + "}")
		case 'a' <= ns && ns <= 'z':
			if name != "" {
				d.print("::" + name)
			}
		default:
			d.fail()
		}
	case 'M', 'X', 'Y':
		if tag != 'Y' {
			d.tagged('s')
			d.quiet++
			d.path(false)
			d.quiet--
		}
		d.print("<")
		d.typ()
		if tag != 'M' {
			d.print(" as ")
			d.path(false)
		}
		d.print(">")
	case 'I':
		d.path(value)
		if value {
			d.print("::")
		}
		d.print("<")
		d.list(d.genericArg)
		d.print(">")
	case 'B':
		d.backref(func() { d.path(value) })
	default:
		d.fail()
	}
}

// list reads items up to E and writes commas between them. It returns their
// number.
func (d *rustDemangler) list(item func()) int {
	n := 0
	for ; d.err == nil && !d.eat('E'); n++ {
		if n > 0 {
			d.print(", ")
		}
		item()
	}
	return n
}

func (d *rustDemangler) genericArg() {
	switch {
	case d.eat('L'):
		d.lifetime(d.number62())
	case d.eat('K'):
		d.constant()
	default:
		d.typ()
	}
}

// lifetime prints a lifetime by its De Bruijn index; 0 is '_.
func (d *rustDemangler) lifetime(lt uint64) {
	d.print("'")
	switch {
	case lt == 0:
		d.print("_")
	case lt > d.bound:
		d.fail()
	case d.bound-lt < 26:
		d.print(string('a' + byte(d.bound-lt)))
	default:
		d.print("_" + strconv.FormatUint(d.bound-lt, 10))
	}
}

// binder reads the lifetimes bound in front of a type, runs f, and unbinds
// them.
func (d *rustDemangler) binder(f func()) {
	n := d.tagged('G')
	if n > 1<<12 {
		d.fail()
		return
	}
	if n > 0 {
		d.print("for<")
		for i := range n {
			if i > 0 {
				d.print(", ")
			}
			d.bound++
			d.lifetime(1)
		}
		d.print("> ")
	}
	f()
	d.bound -= n
}

var rustTypes = map[byte]string{
	'b': "bool", 'c': "char", 'e': "str", 'u': "()", 'a': "i8", 's': "i16", 'l': "i32", 'x': "i64", 'n': "i128", 'i': "isize",
	'h': "u8", 't': "u16", 'm': "u32", 'y': "u64", 'o': "u128", 'j': "usize", 'f': "f32", 'd': "f64", 'z': "!", 'p': "_", 'v': "...",
}

func (d *rustDemangler) typ() {
	if !d.enter() {
		return
	}
	defer d.leave()
	tag := d.next()
	if s, ok := rustTypes[tag]; ok {
		d.print(s)
		return
	}
	switch tag {
	case 'R', 'Q':
		d.print("&")
		if d.eat('L') {
			if lt := d.number62(); lt != 0 {
				d.lifetime(lt)
				d.print(" ")
			}
		}
		if tag == 'Q' {
			d.print("mut ")
		}
		d.typ()
	case 'P':
		d.print("*const ")
		d.typ()
	case 'O':
		d.print("*mut ")
		d.typ()
	case 'A', 'S':
		d.print("[")
		d.typ()
		if tag == 'A' {
			d.print("; ")
			d.constant()
		}
		d.print("]")
	case 'T':
		d.print("(")
		if d.list(d.typ) == 1 {
			d.print(",")
		}
		d.print(")")
	case 'F':
		d.binder(d.fnSig)
	case 'D':
		d.print("dyn ")
		d.binder(func() {
			for n := 0; d.err == nil && !d.eat('E'); n++ {
				if n > 0 {
					d.print(" + ")
				}
				d.dynTrait()
			}
		})
		if !d.eat('L') {
			d.fail()
			return
		}
		if lt := d.number62(); lt != 0 {
			d.print(" + ")
			d.lifetime(lt)
		}
	case 'B':
		d.backref(d.typ)
	default:
		d.pos--
		d.path(false)
	}
}

func (d *rustDemangler) fnSig() {
	if d.eat('U') {
		d.print("unsafe ")
	}
	if d.eat('K') {
		abi := "C"
		if !d.eat('C') {
			abi = strings.ReplaceAll(d.ident(), "_", "-")
		}
		d.print(`extern "` + abi + `" `)
	}
	d.print("fn(")
	d.list(d.typ)
	d.print(")")
	if !d.eat('u') {
		d.print(" -> ")
		d.typ()
	}
}

// dynTrait reads a trait and its associated types, which stand in one pair of
// brackets with the generic arguments.
func (d *rustDemangler) dynTrait() {
	open := d.openPath()
	for d.eat('p') {
		if open {
			d.print(", ")
		} else {
			d.print("<")
			open = true
		}
		d.print(d.ident() + " = ")
		d.typ()
	}
	if open {
		d.print(">")
	}
}

// openPath reads a path and leaves its generic arguments open; it reports
// whether there are any.
func (d *rustDemangler) openPath() bool {
	if !d.enter() {
		return false
	}
	defer d.leave()
	open := false
	switch {
	case d.eat('B'):
		d.backref(func() { open = d.openPath() })
	case d.eat('I'):
		d.path(false)
		d.print("<")
		d.list(d.genericArg)
		open = true
	default:
		d.path(false)
	}
	return open
}

// constant reads a constant that is an argument.
func (d *rustDemangler) constant() {
	if !d.enter() {
		return
	}
	defer d.leave()
	if d.eat('B') {
		d.backref(d.constant)
		return
	}
	switch tag := d.next(); tag {
	case 'p':
		d.print("_")
	case 'h', 't', 'm', 'y', 'o', 'j':
		d.print(decimal(d.nibbles()))
	case 'a', 's', 'l', 'x', 'n', 'i':
		if d.eat('n') {
			d.print("-")
		}
		d.print(decimal(d.nibbles()))
	case 'b':
		switch d.nibbles() {
		case "0":
			d.print("false")
		case "1":
			d.print("true")
		default:
			d.fail()
		}
	case 'c':
		v, err := strconv.ParseUint(d.nibbles(), 16, 32)
		if err != nil || v > utf8.MaxRune || v >= 0xd800 && v < 0xe000 {
			d.fail()
			return
		}
		d.print(strings.ReplaceAll(strconv.QuoteRune(rune(v)), `\x`, `\u`))
	case 'R', 'Q':
		if tag == 'R' && d.eat('e') {
			d.str()
			return
		}
		d.print("&")
		if tag == 'Q' {
			d.print("mut ")
		}
		d.constant()
	case 'e':
		d.print("*")
		d.str()
	case 'A':
		d.print("[")
		d.list(d.constant)
		d.print("]")
	case 'T':
		d.print("(")
		if d.list(d.constant) == 1 {
			d.print(",")
		}
		d.print(")")
	case 'V':
		d.variant()
	default:
		d.fail()
	}
}

// variant reads a value of a struct or an enum.
func (d *rustDemangler) variant() {
	d.path(true)
	switch d.next() {
	case 'U':
	case 'T':
		d.print("(")
		d.list(d.constant)
		d.print(")")
	case 'S':
		d.print(" { ")
		d.list(func() {
			d.tagged('s')
			d.print(d.ident() + ": ")
			d.constant()
		})
		d.print(" }")
	default:
		d.fail()
	}
}

// str reads a string constant, hex digits up to _.
func (d *rustDemangler) str() {
	h := d.hexDigits()
	if len(h)%2 != 0 {
		d.fail()
		return
	}
	b := make([]byte, len(h)/2)
	for i := range b {
		v, _ := hexDigits([]byte(h[2*i : 2*i+2]))
		b[i] = byte(v)
	}
	if !utf8.Valid(b) {
		d.fail()
		return
	}
	d.print(strconv.Quote(string(b)))
}

// nibbles reads the hex digits of a number, without leading zeros.
func (d *rustDemangler) nibbles() string {
	h := d.hexDigits()
	if h == "" {
		d.fail()
		return "0"
	}
	if t := strings.TrimLeft(h, "0"); t != "" {
		return t
	}
	return "0"
}

func (d *rustDemangler) hexDigits() string {
	at := d.pos
	for d.err == nil {
		c := d.next()
		if c == '_' {
			return d.s[at : d.pos-1]
		}
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			d.fail()
		}
	}
	return ""
}

// decimal writes hex digits as a decimal number if it has at most 64 bits.
func decimal(h string) string {
	v, err := strconv.ParseUint(h, 16, 64)
	if err != nil {
		return "0x" + h
	}
	return strconv.FormatUint(v, 10)
}

// punycode decodes an identifier with letters outside of ASCII. Source: RFC
// 3492, with _ for the delimiter and a-z, 0-9 for digits.
func punycode(s string) (string, bool) {
	const base, tmin, tmax, skew, damp = 36, 1, 26, 38, 700
	var out []rune
	if i := strings.LastIndexByte(s, '_'); i >= 0 {
		out = []rune(s[:i])
		s = s[i+1:]
	}
	n, at, bias := 0x80, 0, 72
	for first := true; s != ""; first = false {
		old, w := at, 1
		for k := base; ; k += base {
			if s == "" {
				return "", false
			}
			var x int
			switch c := s[0]; {
			case 'a' <= c && c <= 'z':
				x = int(c - 'a')
			case '0' <= c && c <= '9':
				x = int(c-'0') + 26
			default:
				return "", false
			}
			s = s[1:]
			if x > (math.MaxInt32-at)/w {
				return "", false
			}
			at += x * w
			t := min(max(k-bias, tmin), tmax)
			if x < t {
				break
			}
			if w > math.MaxInt32/(base-t) {
				return "", false
			}
			w *= base - t
		}
		size := len(out) + 1
		delta := (at - old) / 2
		if first {
			delta = (at - old) / damp
		}
		delta += delta / size
		k := 0
		for ; delta > (base-tmin)*tmax/2; k += base {
			delta /= base - tmin
		}
		bias = k + (base-tmin+1)*delta/(delta+skew)
		n += at / size
		at %= size
		if n > utf8.MaxRune || n >= 0xd800 && n < 0xe000 || size > 1<<10 {
			return "", false
		}
		out = append(out, 0)
		copy(out[at+1:], out[at:])
		out[at] = rune(n)
		at++
	}
	return string(out), true
}
