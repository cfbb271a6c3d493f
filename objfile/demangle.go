package objfile

import (
	"strings"

	"github.com/ianlancetaylor/demangle"
)

// What a demangler may take and give, in bytes. The names of the largest C++
// programs have some ten thousand.
const (
	maxMangled   = 32 << 10
	maxDemangled = 64 << 10
)

// Demangle returns a C++, Rust, OCaml or Java name as perf prints it: without
// parameters, return type, hashes, symbol versions and clone suffixes such as
// .isra.0; and any other name, and one that cannot be demangled, as it is.
// The @plt of a stub is kept.
//
// It differs from package demangle, which it uses for C++, where perf does:
// in Rust names, and in > that close after an empty pack.
func Demangle(name string) string {
	if len(name) < 4 || len(name) > maxMangled || name[0] != '_' && name[0] != 'c' && name[0] != 'L' {
		return name
	}
	if name[0] == 'L' {
		if s, ok := java(name); ok {
			return s
		}
		return name
	}
	mangled, suffix := name, ""
	if i := strings.IndexByte(name, '@'); i >= 0 {
		mangled = name[:i]
		if name[i:] == "@plt" {
			suffix = "@plt"
		}
	}
	var s string
	var ok bool
	switch {
	case strings.HasPrefix(mangled, "_R"):
		s, ok = rustV0(mangled)
	case strings.HasPrefix(mangled, "_Z"):
		if s, ok = rustLegacy(mangled); !ok {
			s, ok = cxx(mangled, cxxOptions)
		}
	case strings.HasPrefix(mangled, "_GLOBAL_"):
		s, ok = cxx(mangled, cxxOptions)
	case strings.HasPrefix(mangled, "caml"):
		s, ok = ocaml(mangled)
	}
	if !ok {
		return name
	}
	return s + suffix
}

// DemangleFull is Demangle with the parameters of C++ functions, and their
// clone suffixes, as GNU objdump -C prints names.
func DemangleFull(name string) string {
	if len(name) > maxMangled {
		return name
	}
	mangled, suffix, _ := strings.Cut(name, "@")
	if !strings.HasPrefix(mangled, "_Z") && !strings.HasPrefix(mangled, "_GLOBAL_") {
		return Demangle(name)
	}
	if _, ok := rustLegacy(mangled); ok {
		return Demangle(name)
	}
	s, ok := cxx(mangled, fullOptions)
	if !ok {
		return name
	}
	if suffix != "" {
		s += "@" + suffix
	}
	return s
}

// ocaml demangles camlModule__name: __ is a dot, $xx a byte in hex.
func ocaml(name string) (string, bool) {
	s := name[len("caml"):]
	if s == "" || s[0] < 'A' || s[0] > 'Z' {
		return "", false
	}
	var sb strings.Builder
	for i := 0; i < len(s); i++ {
		if strings.HasPrefix(s[i:], "__") {
			sb.WriteByte('.')
			i++
			continue
		}
		if s[i] == '$' && len(s) >= i+3 {
			if v, n := hexDigits([]byte(s[i+1 : i+3])); n == 2 {
				sb.WriteByte(byte(v))
				i += 2
				continue
			}
		}
		sb.WriteByte(s[i])
	}
	return sb.String(), true
}

// java demangles what the agents of Java machines write, Lpackage/Class;method
// and the descriptor of its type: package.Class.method(types), without the type
// it returns. A method such as <init> has no dot in front of it.
// Source: JVM specification, section 4.3; tests/demangle-java-test.c of perf has
// the form.
func java(name string) (string, bool) {
	class, method, ok := strings.Cut(name[1:], ";")
	if !ok || class == "" || strings.ContainsAny(class, "()[ ") {
		return "", false
	}
	method, params, ok := strings.Cut(method, "(")
	if !ok || method == "" || strings.ContainsAny(method, ";/[)") {
		return "", false
	}
	params, _, ok = strings.Cut(params, ")")
	if !ok {
		return "", false
	}
	var sb strings.Builder
	sb.WriteString(strings.ReplaceAll(class, "/", "."))
	if c := method[0] | 0x20; c >= 'a' && c <= 'z' {
		sb.WriteByte('.')
	}
	sb.WriteString(method)
	sb.WriteByte('(')
	for first := true; params != ""; first = false {
		if !first {
			sb.WriteString(", ")
		}
		element := strings.TrimLeft(params, "[")
		arrays := len(params) - len(element)
		if element == "" || arrays > 255 {
			return "", false
		}
		if element[0] == 'L' {
			class, rest, ok := strings.Cut(element[1:], ";")
			if !ok {
				return "", false
			}
			sb.WriteString(strings.ReplaceAll(class, "/", "."))
			params = rest
		} else {
			typ := javaTypes[element[0]]
			if typ == "" {
				return "", false
			}
			sb.WriteString(typ)
			params = element[1:]
		}
		sb.WriteString(strings.Repeat("[]", arrays))
	}
	sb.WriteByte(')')
	return sb.String(), true
}

var javaTypes = map[byte]string{
	'B': "byte", 'C': "char", 'D': "double", 'F': "float", 'I': "int", 'J': "long", 'S': "short", 'Z': "boolean",
}

// cxxOptions are those of perf without -v. The library's printer stops at
// maxDemangled, 1<<16.
var cxxOptions = []demangle.Option{demangle.NoParams, demangle.NoRust, demangle.MaxLength(16)}

// fullOptions are those of objdump.
var fullOptions = []demangle.Option{demangle.NoRust, demangle.MaxLength(16)}

func cxx(name string, options []demangle.Option) (string, bool) {
	if !strings.Contains(name, "JE") && !strings.Contains(name, "adL") {
		s, err := demangle.ToString(name, options...)
		return s, err == nil
	}
	a, err := demangle.ToAST(name, options...)
	if err != nil {
		return "", false
	}
	a = asPrinted(a)
	return strings.ReplaceAll(demangle.ASTToString(a, options...), ", "+emptyPack+">", ">"), true
}

// emptyPack stands for an empty argument pack at the end of a list. It cannot
// be in a name.
const emptyPack = "\x00"

// asPrinted changes what the library prints otherwise than perf's demangler.
//
// Empty packs that end a list of template arguments become emptyPack. They
// print as nothing, but perf's demangler has no space between the > before such
// a pack and the one behind it, as it has between others: A<B<C>> for one that
// ends in an empty pack, A<B<C> > for another.
//
// The address of an instance of a function template, as an argument, has its
// type: &(void f<int>(int)). The library prints &(f<int>), as is right for one
// that is no instance, where the form of the expression decides.
func asPrinted(a demangle.AST) demangle.AST {
	left := 1 << 14 // back references make trees of any size
	b := a.Copy(func(a demangle.AST) demangle.AST {
		switch a := a.(type) {
		case *demangle.Template:
			if len(a.Args) < 2 {
				return nil
			}
			p, ok := a.Args[len(a.Args)-1].(*demangle.ArgumentPack)
			if !ok || len(p.Args) > 0 {
				return nil
			}
			args := append(a.Args[:len(a.Args)-1:len(a.Args)-1], &demangle.Name{Name: emptyPack})
			return &demangle.Template{Name: a.Name, Args: args}
		case *demangle.Unary:
			op, ok := a.Op.(*demangle.Operator)
			t, ok2 := a.Expr.(*demangle.Typed)
			if !ok || !ok2 || op.Name != "&" || a.Suffix {
				return nil
			}
			if _, ok := t.Name.(*demangle.Template); ok {
				return &demangle.Unary{Op: a.Op, Expr: &demangle.MethodWithQualifiers{Method: t}, SizeofType: a.SizeofType}
			}
		}
		return nil
	}, func(demangle.AST) bool {
		left--
		return left < 0
	})
	if b == nil {
		return a
	}
	return b
}
