package perfdata

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// A tracePrint is a print fmt that was understood: pieces of printf, each with
// its argument.
type tracePrint struct{ pieces []tracePiece }

// A tracePiece is literal text, or a conversion.
type tracePiece struct {
	text        string
	flags       string
	width, prec int // -1: none
	widthArg    *traceExpr
	precArg     *traceExpr
	length      int    // bytes of the number
	verb        byte   // 0: text alone
	suffix      string // behind p: pS, pI4 …
	arg         *traceExpr
}

// A TraceSymbol names the address of a function of the kernel for %pS; ok is
// false if it cannot.
type TraceSymbol func(addr uint64) (name string, offset uint64, ok bool)

// errTracePrint says that a print fmt has something that is not understood.
var errTracePrint = errors.New("print fmt is not understood")

// AppendPrint appends raw data as the kernel's print fmt has it; if that cannot
// be followed, its fields as AppendFields does. symbol may be nil.
func (t *TraceFormat) AppendPrint(dst, raw []byte, symbol TraceSymbol) []byte {
	if t.print == nil {
		return t.AppendFields(dst, raw)
	}
	e := traceEval{t: t, raw: raw, symbol: symbol}
	return e.print(dst, t.print)
}

// Prepare parses the print fmt. It is called once before AppendPrint, which
// many goroutines may call then. The error says why fields are printed instead.
func (t *TraceFormat) Prepare() error {
	if t.print == nil && t.err == nil {
		t.print, t.err = parseTracePrint(t)
	}
	return t.err
}

// Pointers calls f for the addresses of functions that the print fmt prints.
func (t *TraceFormat) Pointers(raw []byte, f func(addr uint64)) {
	if t.print == nil {
		return
	}
	e := traceEval{t: t, raw: raw}
	for i := range t.print.pieces {
		p := &t.print.pieces[i]
		if p.verb == 'p' && p.function() {
			f(e.value(p.arg, 0).n)
		}
	}
}

// PrintsPointers reports whether the print fmt prints addresses of functions.
func (t *TraceFormat) PrintsPointers() bool {
	if t.print == nil {
		return false
	}
	for i := range t.print.pieces {
		if p := &t.print.pieces[i]; p.verb == 'p' && p.function() {
			return true
		}
	}
	return false
}

func (p *tracePiece) function() bool {
	return p.suffix != "" && strings.ContainsRune("SsFfB", rune(p.suffix[0]))
}

// A traceExpr is an expression of C.
type traceExpr struct {
	op   string // "num", "str", "field", "index", "call", "?:", "cast", "u-" …, or a binary operator
	n    uint64
	s    string
	f    *TraceField
	args []*traceExpr
	list []traceCase // of __print_flags and __print_symbolic
	size int         // of a cast, in bytes; negative: signed
}

// A traceCase is a value and its name.
type traceCase struct {
	n uint64
	s string
}

// traceParser parses print fmts.
type traceParser struct {
	t    *TraceFormat
	toks []string
	i    int
	deep int
}

// maxTraceDepth is how deep expressions may nest.
const maxTraceDepth = 64

func parseTracePrint(t *TraceFormat) (*tracePrint, error) {
	toks, err := traceTokens(t.Print)
	if err != nil {
		return nil, err
	}
	p := &traceParser{t: t, toks: toks}
	format, err := p.strings()
	if err != nil {
		return nil, err
	}
	var args []*traceExpr
	for p.accept(",") {
		e, err := p.expr(0)
		if err != nil {
			return nil, err
		}
		args = append(args, e)
	}
	if p.i != len(p.toks) {
		return nil, fmt.Errorf("%w: %q", errTracePrint, p.peek())
	}
	return parsePrintf(format, args, t.long)
}

// traceTokens splits C into words: strings keep their first quote.
func traceTokens(s string) ([]string, error) {
	var toks []string
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n':
			i++
		case c == '"':
			var b strings.Builder
			b.WriteByte('"')
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' && i+1 < len(s) {
					i++
					switch s[i] {
					case 'n':
						b.WriteByte('\n')
					case 't':
						b.WriteByte('\t')
					default:
						b.WriteByte(s[i])
					}
					continue
				}
				b.WriteByte(s[i])
			}
			if i >= len(s) {
				return nil, fmt.Errorf("%w: a string has no end", errTracePrint)
			}
			i++
			toks = append(toks, b.String())
		case c == '\'' && i+2 < len(s) && s[i+2] == '\'':
			toks = append(toks, strconv.Itoa(int(s[i+1])))
			i += 3
		case c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9':
			j := i
			for j < len(s) && (s[j] == '_' || s[j] >= 'a' && s[j] <= 'z' || s[j] >= 'A' && s[j] <= 'Z' || s[j] >= '0' && s[j] <= '9') {
				j++
			}
			toks = append(toks, s[i:j])
			i = j
		default:
			n := 1
			if i+1 < len(s) {
				switch s[i : i+2] {
				case "->", "<<", ">>", "<=", ">=", "==", "!=", "&&", "||":
					n = 2
				}
			}
			toks = append(toks, s[i:i+n])
			i += n
		}
	}
	return toks, nil
}

func (p *traceParser) peek() string {
	if p.i < len(p.toks) {
		return p.toks[p.i]
	}
	return ""
}

func (p *traceParser) accept(tok string) bool {
	if p.peek() == tok {
		p.i++
		return true
	}
	return false
}

func (p *traceParser) want(tok string) error {
	if !p.accept(tok) {
		return fmt.Errorf("%w: %q, want %q", errTracePrint, p.peek(), tok)
	}
	return nil
}

// strings reads string literals that stand one behind the other.
func (p *traceParser) strings() (string, error) {
	if !strings.HasPrefix(p.peek(), `"`) {
		return "", fmt.Errorf("%w: %q, want a string", errTracePrint, p.peek())
	}
	var b strings.Builder
	for strings.HasPrefix(p.peek(), `"`) {
		b.WriteString(p.peek()[1:])
		p.i++
	}
	return b.String(), nil
}

// tracePrec are the precedences of binary operators.
var tracePrec = map[string]int{
	"?": 1, "||": 2, "&&": 3, "|": 4, "^": 5, "&": 6, "==": 7, "!=": 7, "<": 8, ">": 8, "<=": 8, ">=": 8,
	"<<": 9, ">>": 9, "+": 10, "-": 10, "*": 11, "/": 11, "%": 11,
}

func (p *traceParser) expr(least int) (*traceExpr, error) {
	if p.deep++; p.deep > maxTraceDepth {
		return nil, fmt.Errorf("%w: nested too deep", errTracePrint)
	}
	defer func() { p.deep-- }()
	left, err := p.unary()
	if err != nil {
		return nil, err
	}
	for {
		op := p.peek()
		prec, ok := tracePrec[op]
		if !ok || prec <= least {
			return left, nil
		}
		p.i++
		if op == "?" {
			yes, err := p.expr(0)
			if err != nil {
				return nil, err
			}
			if err := p.want(":"); err != nil {
				return nil, err
			}
			no, err := p.expr(0)
			if err != nil {
				return nil, err
			}
			left = &traceExpr{op: "?:", args: []*traceExpr{left, yes, no}}
			continue
		}
		right, err := p.expr(prec)
		if err != nil {
			return nil, err
		}
		left = &traceExpr{op: op, args: []*traceExpr{left, right}}
	}
}

func (p *traceParser) unary() (*traceExpr, error) {
	switch tok := p.peek(); tok {
	case "-", "~", "!", "+", "&", "*":
		p.i++
		if p.deep++; p.deep > maxTraceDepth {
			return nil, fmt.Errorf("%w: nested too deep", errTracePrint)
		}
		e, err := p.unary()
		p.deep--
		if err != nil || tok == "+" || tok == "&" {
			return e, err
		}
		if tok == "*" {
			return &traceExpr{op: "index", args: []*traceExpr{e, {op: "num"}}}, nil
		}
		return &traceExpr{op: "u" + tok, args: []*traceExpr{e}}, nil
	case "(":
		if size, ok := p.cast(); ok {
			if p.deep++; p.deep > maxTraceDepth {
				return nil, fmt.Errorf("%w: nested too deep", errTracePrint)
			}
			e, err := p.unary()
			p.deep--
			if err != nil {
				return nil, err
			}
			return &traceExpr{op: "cast", size: size, args: []*traceExpr{e}}, nil
		}
	}
	e, err := p.primary()
	for err == nil && p.accept("[") {
		var i *traceExpr
		if i, err = p.expr(0); err == nil {
			err = p.want("]")
		}
		e = &traceExpr{op: "index", args: []*traceExpr{e, i}}
	}
	return e, err
}

// typeSizes are the types in casts: bytes, negative if signed.
var typeSizes = map[string]int{
	"char": -1, "u8": 1, "s8": -1, "__u8": 1, "bool": 1, "u16": 2, "s16": -2, "__u16": 2, "short": -2, "u32": 4, "s32": -4, "__u32": 4, "int": -4,
	"u64": 8, "s64": -8, "__u64": 8, "long": -8, "size_t": 8, "ssize_t": -8, "void": 8, "unsigned": 4, "dev_t": 4, "pid_t": -4, "gfp_t": 4,
	"uint8_t": 1, "uint16_t": 2, "uint32_t": 4, "uint64_t": 8, "int8_t": -1, "int16_t": -2, "int32_t": -4, "int64_t": -8,
	"sector_t": 8, "loff_t": -8, "signed": -4, "const": 0, "struct": 0, "enum": 4, "union": 0, "__le32": 4, "__le64": 8, "__be32": 4,
	"ktime_t": -8, "dma_addr_t": 8, "phys_addr_t": 8, "resource_size_t": 8, "blk_opf_t": 4, "umode_t": 2, "uid_t": 4, "__force": 0,
	"uint": 4, "ushort": 2, "ulong": 8, "uchar": 1, "__kernel_rwf_t": -4, "xfs_ino_t": 8, "xfs_daddr_t": -8, "fmode_t": 4, "__poll_t": 4,
}

// cast reads "(TYPE)" if that is what stands there.
func (p *traceParser) cast() (size int, ok bool) {
	start := p.i
	p.i++
	words := 0
	unsigned, long, pointer := false, 0, false
	for ; p.i < len(p.toks) && p.toks[p.i] != ")"; p.i++ {
		tok := p.toks[p.i]
		n, known := typeSizes[tok]
		switch {
		case tok == "*" && words > 0:
			pointer = true
		case known:
			words++
			switch tok {
			case "unsigned":
				unsigned = true
			case "long":
				long++
			}
			if n != 0 && !(size != 0 && (tok == "int" || tok == "unsigned" || tok == "signed")) {
				size = n
			}
			if (tok == "struct" || tok == "enum" || tok == "union") && p.i+1 < len(p.toks) {
				p.i++ // its name
			}
		default:
			p.i = start
			return 0, false
		}
	}
	if words == 0 || p.i >= len(p.toks) {
		p.i = start
		return 0, false
	}
	p.i++
	if long > 0 {
		size = -8
		if p.t.long == 4 && long == 1 {
			size = -4
		}
	}
	if unsigned && size < 0 {
		size = -size
	}
	if pointer || size == 0 {
		size = 8
	}
	return size, true
}

func (p *traceParser) primary() (*traceExpr, error) {
	tok := p.peek()
	switch {
	case tok == "":
		return nil, fmt.Errorf("%w: it ends too early", errTracePrint)
	case tok == "(":
		p.i++
		e, err := p.expr(0)
		if err != nil {
			return nil, err
		}
		return e, p.want(")")
	case tok[0] == '"':
		s, err := p.strings()
		return &traceExpr{op: "str", s: s}, err
	case tok[0] >= '0' && tok[0] <= '9':
		p.i++
		n, err := strconv.ParseUint(strings.TrimRight(tok, "uUlL"), 0, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: %q", errTracePrint, tok)
		}
		return &traceExpr{op: "num", n: n}, nil
	case tok == "REC":
		p.i++
		if err := p.want("->"); err != nil {
			return nil, err
		}
		f := p.t.field(p.peek())
		if f == nil {
			return nil, fmt.Errorf("%w: no field %q", errTracePrint, p.peek())
		}
		p.i++
		return &traceExpr{op: "field", f: f}, nil
	}
	p.i++
	if p.accept("(") {
		return p.call(tok)
	}
	if c := tok[0]; c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' {
		// A name of the kernel's, whose value is not recorded.
		return &traceExpr{op: "unknown"}, nil
	}
	return nil, fmt.Errorf("%w: %q", errTracePrint, tok)
}

// call reads the arguments of a function or macro.
func (p *traceParser) call(name string) (*traceExpr, error) {
	e := &traceExpr{op: "call", s: name}
	switch name {
	case "__get_str", "__get_rel_str", "__get_dynamic_array", "__get_rel_dynamic_array", "__get_dynamic_array_len",
		"__get_rel_dynamic_array_len", "__get_bitmask", "__get_rel_bitmask", "__get_cpumask", "__get_rel_cpumask", "__get_sockaddr":
		e.f = p.t.field(p.peek())
		if e.f == nil {
			return nil, fmt.Errorf("%w: no field %q", errTracePrint, p.peek())
		}
		p.i++
		return e, p.want(")")
	case "__print_flags", "__print_symbolic", "__print_flags_u64", "__print_symbolic_u64":
		return e, p.cases(e)
	case "__print_hex", "__print_hex_str", "__print_array", "sizeof", "__print_ns_to_secs", "__print_ns_without_secs",
		"__builtin_expect", "likely", "unlikely", "IS_ERR_VALUE", "min", "max":
	default:
		return nil, fmt.Errorf("%w: function %q", errTracePrint, name)
	}
	if name == "sizeof" {
		start := p.i
		p.i--
		if size, ok := p.cast(); ok {
			return &traceExpr{op: "num", n: uint64(max(size, -size))}, nil
		}
		p.i = start
	}
	for !p.accept(")") {
		a, err := p.expr(0)
		if err != nil {
			return nil, err
		}
		e.args = append(e.args, a)
		if !p.accept(",") {
			if err := p.want(")"); err != nil {
				return nil, err
			}
			break
		}
	}
	want := map[string]int{"__print_hex": 2, "__print_hex_str": 2, "__print_array": 3, "min": 2, "max": 2}[name]
	if len(e.args) < max(want, 1) {
		return nil, fmt.Errorf("%w: %s of %d arguments", errTracePrint, name, len(e.args))
	}
	return e, nil
}

// cases reads the arguments of __print_flags and __print_symbolic.
func (p *traceParser) cases(e *traceExpr) error {
	v, err := p.expr(0)
	if err != nil {
		return err
	}
	e.args = []*traceExpr{v}
	if err := p.want(","); err != nil {
		return err
	}
	if strings.HasPrefix(e.s, "__print_flags") {
		sep, err := p.strings()
		if err != nil {
			return err
		}
		e.args = append(e.args, &traceExpr{op: "str", s: sep})
		if err := p.want(","); err != nil {
			return err
		}
	}
	for {
		if err := p.want("{"); err != nil {
			return err
		}
		n, err := p.expr(0)
		if err != nil {
			return err
		}
		if err := p.want(","); err != nil {
			return err
		}
		s, err := p.expr(0)
		if err != nil {
			return err
		}
		if err := p.want("}"); err != nil {
			return err
		}
		ev := traceEval{t: p.t}
		if s.op == "str" { // else the mark of the end, which is NULL
			x := traceCase{ev.value(n, 0).n, s.s}
			if n.op == "unknown" {
				x.n = ^uint64(0) // equal to nothing
			}
			e.list = append(e.list, x)
		}
		if p.accept(")") {
			return nil
		}
		if err := p.want(","); err != nil {
			return err
		}
	}
}

// parsePrintf splits a format.
func parsePrintf(format string, args []*traceExpr, long int) (*tracePrint, error) {
	p := &tracePrint{}
	next := func() (*traceExpr, error) {
		if len(args) == 0 {
			return nil, fmt.Errorf("%w: fewer arguments than conversions", errTracePrint)
		}
		a := args[0]
		args = args[1:]
		return a, nil
	}
	var err error
	for format != "" {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			i = len(format)
		}
		if i > 0 {
			p.pieces = append(p.pieces, tracePiece{text: format[:i]})
			format = format[i:]
			continue
		}
		format = format[1:]
		if strings.HasPrefix(format, "%") {
			p.pieces = append(p.pieces, tracePiece{text: "%"})
			format = format[1:]
			continue
		}
		c := tracePiece{width: -1, prec: -1, length: 4}
		n := len(format) - len(strings.TrimLeft(format, "-+ #0"))
		c.flags, format = format[:n], format[n:]
		if c.width, c.widthArg, format, err = printfNumber(format, next); err != nil {
			return nil, err
		}
		if rest, ok := strings.CutPrefix(format, "."); ok {
			if c.prec, c.precArg, format, err = printfNumber(rest, next); err != nil {
				return nil, err
			}
			c.prec = max(c.prec, 0)
		}
		n = len(format) - len(strings.TrimLeft(format, "hljztL"))
		switch format[:n] {
		case "hh":
			c.length = 1
		case "h":
			c.length = 2
		case "l":
			c.length = long
		case "ll", "L", "j":
			c.length = 8
		case "z", "t":
			c.length = long
		}
		format = format[n:]
		if format == "" {
			return nil, fmt.Errorf("%w: the format ends in a conversion", errTracePrint)
		}
		c.verb, format = format[0], format[1:]
		if c.verb == 'p' {
			n := 0
			for n < len(format) && n < 4 && (format[n] >= 'a' && format[n] <= 'z' || format[n] >= 'A' && format[n] <= 'Z' || format[n] >= '0' && format[n] <= '9') {
				n++
			}
			c.suffix, format = pointerSuffix(format[:n]), format[len(pointerSuffix(format[:n])):]
		}
		if !strings.ContainsRune("diuxXocsp", rune(c.verb)) {
			return nil, fmt.Errorf("%w: %%%c", errTracePrint, c.verb)
		}
		if c.arg, err = next(); err != nil {
			return nil, err
		}
		p.pieces = append(p.pieces, c)
	}
	return p, nil
}

// pointerSuffix returns what of the letters behind %p belongs to it.
func pointerSuffix(s string) string {
	for _, x := range []string{"I4", "I6c", "I6", "i4", "i6", "ISpc", "ISc", "IS", "UB", "UL", "Ub", "Ul", "M", "m", "SR", "S", "s", "F", "f", "B", "K", "x", "bl", "d"} {
		if strings.HasPrefix(s, x) {
			return x
		}
	}
	return ""
}

func printfNumber(format string, next func() (*traceExpr, error)) (int, *traceExpr, string, error) {
	if rest, ok := strings.CutPrefix(format, "*"); ok {
		a, err := next()
		return -1, a, rest, err
	}
	n := 0
	for n < len(format) && n < 4 && format[n] >= '0' && format[n] <= '9' {
		n++
	}
	if n == 0 {
		return -1, nil, format, nil
	}
	v, _ := strconv.Atoi(format[:n])
	return v, nil, format[n:], nil
}
