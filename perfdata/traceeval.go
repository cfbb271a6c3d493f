package perfdata

import (
	"fmt"
	"net/netip"
	"strconv"
)

// A traceEval evaluates a print fmt for one sample.
type traceEval struct {
	t      *TraceFormat
	raw    []byte
	symbol TraceSymbol
}

// A traceValue is a number, or bytes with what tells apart their elements.
type traceValue struct {
	n    uint64
	b    []byte
	text bool // b is a text
	elem int
	sign bool
}

// value evaluates e. What cannot be is zero.
func (v *traceEval) value(e *traceExpr, depth int) traceValue {
	if depth > 4*maxTraceDepth {
		return traceValue{}
	}
	num := func(i int) uint64 { return v.value(e.args[i], depth+1).n }
	switch e.op {
	case "num":
		return traceValue{n: e.n}
	case "unknown":
		return traceValue{}
	case "str":
		return traceValue{b: []byte(e.s), text: true}
	case "field":
		return v.field(e.f)
	case "cast":
		x := v.value(e.args[0], depth+1)
		switch e.size {
		case 1:
			x.n = uint64(uint8(x.n))
		case 2:
			x.n = uint64(uint16(x.n))
		case 4:
			x.n = uint64(uint32(x.n))
		case -1:
			x.n = uint64(int64(int8(x.n)))
		case -2:
			x.n = uint64(int64(int16(x.n)))
		case -4:
			x.n = uint64(int64(int32(x.n)))
		}
		x.sign = e.size < 0
		return x
	case "index":
		x, i := v.value(e.args[0], depth+1), v.value(e.args[1], depth+1).n
		elem := uint64(max(x.elem, 1))
		if i < uint64(len(x.b))/elem {
			return traceValue{n: v.t.integer(x.b[i*elem:(i+1)*elem], x.sign), sign: x.sign}
		}
		return traceValue{}
	case "u-":
		return traceValue{n: -num(0), sign: true}
	case "u~":
		return traceValue{n: ^num(0)}
	case "u!":
		return boolean(num(0) == 0)
	case "?:":
		c := v.value(e.args[0], depth+1)
		if c.n != 0 || len(c.b) > 0 {
			return v.value(e.args[1], depth+1)
		}
		return v.value(e.args[2], depth+1)
	case "&&":
		return boolean(num(0) != 0 && num(1) != 0)
	case "||":
		return boolean(num(0) != 0 || num(1) != 0)
	case "call":
		return v.call(e, depth)
	}
	return v.binary(e.op, v.value(e.args[0], depth+1), v.value(e.args[1], depth+1))
}

func boolean(b bool) traceValue {
	if b {
		return traceValue{n: 1}
	}
	return traceValue{}
}

func (v *traceEval) binary(op string, x, y traceValue) traceValue {
	sign := x.sign && y.sign
	a, b := x.n, y.n
	out := traceValue{sign: sign}
	switch op {
	case "+":
		out.n = a + b
	case "-":
		out.n = a - b
	case "*":
		out.n = a * b
	case "/", "%":
		switch {
		case b == 0:
		case op == "/" && sign:
			out.n = uint64(int64(a) / int64(b))
		case op == "/":
			out.n = a / b
		case sign:
			out.n = uint64(int64(a) % int64(b))
		default:
			out.n = a % b
		}
	case "<<":
		out.n = a << (b & 127)
	case ">>":
		if x.sign {
			out.n, out.sign = uint64(int64(a)>>(b&127)), true
		} else {
			out.n = a >> (b & 127)
		}
	case "&":
		out.n = a & b
	case "|":
		out.n = a | b
	case "^":
		out.n = a ^ b
	case "==":
		return boolean(a == b)
	case "!=":
		return boolean(a != b)
	case "<":
		return boolean(a < b && !sign || sign && int64(a) < int64(b))
	case ">":
		return boolean(a > b && !sign || sign && int64(a) > int64(b))
	case "<=":
		return boolean(a <= b && !sign || sign && int64(a) <= int64(b))
	case ">=":
		return boolean(a >= b && !sign || sign && int64(a) >= int64(b))
	}
	return out
}

func (v *traceEval) field(f *TraceField) traceValue {
	b := v.t.bytes(v.raw, f)
	x := traceValue{sign: f.Signed}
	switch {
	case f.String:
		x.b, x.text = untilNUL(b), true
	case f.Array || f.Dynamic:
		x.b, x.elem = b, f.elem
	default:
		x.n = v.t.integer(b, f.Signed)
	}
	return x
}

func (v *traceEval) call(e *traceExpr, depth int) traceValue {
	switch e.s {
	case "__get_str", "__get_rel_str":
		return traceValue{b: untilNUL(v.t.bytes(v.raw, e.f)), text: true}
	case "__get_dynamic_array", "__get_rel_dynamic_array", "__get_sockaddr":
		return traceValue{b: v.t.bytes(v.raw, e.f), elem: e.f.elem, sign: e.f.Signed}
	case "__get_dynamic_array_len", "__get_rel_dynamic_array_len":
		return traceValue{n: uint64(len(v.t.bytes(v.raw, e.f)))}
	case "__get_bitmask", "__get_rel_bitmask", "__get_cpumask", "__get_rel_cpumask":
		return traceValue{b: v.bitmask(v.t.bytes(v.raw, e.f)), text: true}
	case "__print_flags", "__print_flags_u64":
		return traceValue{b: printFlags(v.value(e.args[0], depth+1).n, e.args[1].s, e.list), text: true}
	case "__print_symbolic", "__print_symbolic_u64":
		return traceValue{b: printSymbolic(v.value(e.args[0], depth+1).n, e.list), text: true}
	case "__print_hex", "__print_hex_str":
		x, n := v.value(e.args[0], depth+1), v.value(e.args[1], depth+1).n
		return traceValue{b: printHex(x.b[:min(n, uint64(len(x.b)))], e.s == "__print_hex"), text: true}
	case "__print_array":
		x, n, size := v.value(e.args[0], depth+1), v.value(e.args[1], depth+1).n, v.value(e.args[2], depth+1).n
		return traceValue{b: v.printArray(x.b, n, size), text: true}
	case "__print_ns_to_secs":
		n := v.value(e.args[0], depth+1).n
		return traceValue{b: fmt.Appendf(nil, "%d.%09d", n/1e9, n%1e9), text: true}
	case "__print_ns_without_secs":
		return traceValue{n: v.value(e.args[0], depth+1).n % 1e9}
	case "IS_ERR_VALUE":
		return boolean(v.value(e.args[0], depth+1).n > ^uint64(0)-4095)
	case "min", "max":
		x, y := v.value(e.args[0], depth+1), v.value(e.args[1], depth+1)
		if (x.n < y.n) == (e.s == "min") {
			return x
		}
		return y
	}
	return v.value(e.args[0], depth+1) // __builtin_expect and the like
}

func printFlags(n uint64, sep string, list []traceCase) []byte {
	var b []byte
	some := false
	for _, c := range list {
		if n == 0 && int64(c.n) < 0 {
			return append(b, c.s...) // as libtraceevent, which takes a name that it does not know for that
		}
		if int64(c.n) > 0 && n&c.n == c.n {
			if some {
				b = append(b, sep...)
			}
			some = true
			b = append(b, c.s...)
			n &^= c.n
		}
	}
	if n != 0 {
		if some {
			b = append(b, sep...)
		}
		b = strconv.AppendUint(append(b, "0x"...), n, 16)
	}
	return b
}

func printSymbolic(n uint64, list []traceCase) []byte {
	for _, c := range list {
		if c.n == n {
			return []byte(c.s)
		}
	}
	return strconv.AppendUint([]byte("0x"), n, 16)
}

func printHex(data []byte, spaced bool) []byte {
	var b []byte
	for i, c := range data {
		if i > 0 && spaced {
			b = append(b, ' ')
		}
		b = fmt.Appendf(b, "%02x", c)
	}
	return b
}

func (v *traceEval) printArray(data []byte, n, size uint64) []byte {
	if size != 1 && size != 2 && size != 4 && size != 8 {
		return []byte("{}")
	}
	b := []byte{'{'}
	for i := uint64(0); i < n && (i+1)*size <= uint64(len(data)); i++ {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(append(b, "0x"...), v.t.integer(data[i*size:(i+1)*size], false), 16)
	}
	return append(b, '}')
}

// bitmask returns a mask in hex, 32 bits at a time, the highest first.
func (v *traceEval) bitmask(data []byte) []byte {
	var b []byte
	for i := len(data) - len(data)%4 - 4; i >= 0; i -= 4 {
		at := i
		if v.t.big && v.t.long == 8 {
			at = i ^ 4 // of each long, the lower half comes second
			if at+4 > len(data) {
				at = i
			}
		}
		if len(b) > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, "%08x", uint32(v.t.integer(data[at:at+4], false)))
	}
	return b
}

// maxTraceWidth is the widest column of a print fmt.
const maxTraceWidth = 1 << 12

func (v *traceEval) print(dst []byte, p *tracePrint) []byte {
	for i := range p.pieces {
		c := &p.pieces[i]
		if c.verb == 0 {
			dst = append(dst, c.text...)
			continue
		}
		width, prec, flags := c.width, c.prec, c.flags
		if c.widthArg != nil {
			width = int(int32(v.value(c.widthArg, 0).n))
			if width < 0 {
				width, flags = -width, flags+"-"
			}
		}
		if c.precArg != nil {
			prec = int(int32(v.value(c.precArg, 0).n))
		}
		dst = v.piece(dst, c, flags, min(width, maxTraceWidth), min(prec, maxTraceWidth))
	}
	return dst
}

// piece appends a conversion.
func (v *traceEval) piece(dst []byte, c *tracePiece, flags string, width, prec int) []byte {
	x := v.value(c.arg, 0)
	verb := c.verb
	if x.text && verb != 's' && verb != 'p' {
		verb = 's' // as __print_symbolic with %d
	}
	n := x.n
	switch c.length {
	case 1:
		n = uint64(uint8(n))
	case 2:
		n = uint64(uint16(n))
	case 4:
		n = uint64(uint32(n))
	}
	spec := "%" + flags
	if width >= 0 {
		spec += strconv.Itoa(width)
	}
	if prec >= 0 && verb != 'c' && verb != 'p' {
		spec += "." + strconv.Itoa(prec)
	}
	switch verb {
	case 'd', 'i':
		s := int64(x.n)
		switch c.length {
		case 1:
			s = int64(int8(s))
		case 2:
			s = int64(int16(s))
		case 4:
			s = int64(int32(s))
		}
		return fmt.Appendf(dst, spec+"d", s)
	case 'u':
		return fmt.Appendf(dst, spec+"d", n)
	case 'x', 'X', 'o':
		if n == 0 && len(flags) > 0 {
			// C has no 0x before zero.
			spec = "%" + removeByte(flags, '#') + spec[1+len(flags):]
		}
		return fmt.Appendf(dst, spec+string(verb), n)
	case 'c':
		return fmt.Appendf(dst, spec+"c", rune(byte(n)))
	case 's':
		s := x.b
		if !x.text && x.b == nil {
			if text, ok := v.t.texts[x.n]; ok {
				return fmt.Appendf(dst, spec+"s", text)
			}
			// A pointer to what was not recorded.
			return strconv.AppendUint(append(dst, "0x"...), x.n, 16)
		}
		return fmt.Appendf(dst, spec+"s", untilNUL(s))
	}
	return v.pointer(dst, c, x, spec)
}

func removeByte(s string, c byte) string {
	var b []byte
	for i := range len(s) {
		if s[i] != c {
			b = append(b, s[i])
		}
	}
	return string(b)
}

// pointer appends %p and its kin.
func (v *traceEval) pointer(dst []byte, c *tracePiece, x traceValue, spec string) []byte {
	if c.function() && x.b == nil {
		if v.symbol != nil {
			if name, off, ok := v.symbol(x.n); ok {
				dst = append(dst, name...)
				if c.suffix[0] == 'S' || c.suffix[0] == 'F' {
					dst = strconv.AppendUint(append(dst, "+0x"...), off, 16)
				}
				return dst
			}
		}
		return strconv.AppendUint(append(dst, "0x"...), x.n, 16)
	}
	switch {
	case len(c.suffix) > 0 && (c.suffix[0] == 'I' || c.suffix[0] == 'i') && (len(x.b) == 4 || len(x.b) == 16):
		if a, ok := netip.AddrFromSlice(x.b); ok {
			return append(dst, a.String()...)
		}
	case len(c.suffix) > 0 && (c.suffix[0] == 'M' || c.suffix[0] == 'm') && len(x.b) == 6:
		return fmt.Appendf(dst, "%02x:%02x:%02x:%02x:%02x:%02x", x.b[0], x.b[1], x.b[2], x.b[3], x.b[4], x.b[5])
	case len(c.suffix) > 0 && c.suffix[0] == 'U' && len(x.b) == 16:
		return fmt.Appendf(dst, "%x-%x-%x-%x-%x", x.b[:4], x.b[4:6], x.b[6:8], x.b[8:10], x.b[10:])
	}
	if x.text {
		return append(dst, x.b...)
	}
	if x.b != nil {
		return append(dst, printHex(x.b, true)...)
	}
	if x.n == 0 {
		return append(dst, "(nil)"...)
	}
	return strconv.AppendUint(append(dst, "0x"...), x.n, 16)
}
