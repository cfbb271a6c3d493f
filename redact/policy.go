package redact

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// A Rule says what becomes of a kind of text. "" is the default of its kind.
type Rule string

// The rules. Not every kind has all of them: see Policy.
const (
	Keep Rule = "keep" // as it is, but for names that are replaced everywhere
	Mask Rule = "mask" // what is secret in it is replaced
	Drop Rule = "drop" // left out
	All  Rule = "all"  // replaced as a whole, by a pseudonym
)

// A Policy says what is replaced. The zero value is the default policy.
type Policy struct {
	Cmdline     Rule // CMDLINE: mask keeps options of perf and the name of the command (default), drop, keep
	Hosts       Rule // mask (default), keep
	Users       Rule // names of users and home directories: mask (default), keep
	Environment Rule // values of NAME=VALUE, --token=VALUE, URLs: mask (default), keep
	Containers  Rule // names and ids of containers, pods and machines: mask (default), keep
	Comm        Rule // names of threads: mask (default), all
	Paths       Rule // of files outside of system directories: mask (default), all
	Stacks      Rule // copies of user stacks: mask (default), drop, keep
	Registers   Rule // registers of user space: keep (default), drop
	Raw         Rule // raw data of tracepoints: mask (default), drop, keep
	Objects     Rule // files in a bundle that hold names: mask (default), drop, keep
	Unknown     Rule // features and records that are not understood: drop (default), keep

	Also     []string         // words to be replaced everywhere
	Allow    []string         // words that are never replaced
	Patterns []*regexp.Regexp // what matches in a text is replaced

	// HostNames and UserNames are known from elsewhere: the recording may hold
	// them though it does not say so.
	HostNames, UserNames []string

	// Key makes pseudonyms that are the same in all recordings it is used for.
	// Without one they are numbers.
	Key []byte
}

// Default returns the default policy.
func Default() Policy { return Policy{} }

// Strict returns a policy that keeps no name of a thread and of no file outside
// of system directories, no arguments, no memory.
func Strict() Policy {
	return Policy{Cmdline: Drop, Comm: All, Paths: All, Stacks: Drop, Registers: Drop, Raw: Drop}
}

// ruleField is a line of a policy file that sets a rule.
type ruleField struct {
	name    string
	of      func(*Policy) *Rule
	allowed []Rule // the first is the default
}

var ruleFields = []ruleField{
	{"cmdline", func(p *Policy) *Rule { return &p.Cmdline }, []Rule{Mask, Drop, Keep}},
	{"hosts", func(p *Policy) *Rule { return &p.Hosts }, []Rule{Mask, Keep}},
	{"users", func(p *Policy) *Rule { return &p.Users }, []Rule{Mask, Keep}},
	{"environment", func(p *Policy) *Rule { return &p.Environment }, []Rule{Mask, Keep}},
	{"containers", func(p *Policy) *Rule { return &p.Containers }, []Rule{Mask, Keep}},
	{"comm", func(p *Policy) *Rule { return &p.Comm }, []Rule{Mask, All}},
	{"paths", func(p *Policy) *Rule { return &p.Paths }, []Rule{Mask, All}},
	{"user-stacks", func(p *Policy) *Rule { return &p.Stacks }, []Rule{Mask, Drop, Keep}},
	{"user-regs", func(p *Policy) *Rule { return &p.Registers }, []Rule{Keep, Drop}},
	{"raw", func(p *Policy) *Rule { return &p.Raw }, []Rule{Mask, Drop, Keep}},
	{"objects", func(p *Policy) *Rule { return &p.Objects }, []Rule{Mask, Drop, Keep}},
	{"unknown", func(p *Policy) *Rule { return &p.Unknown }, []Rule{Drop, Keep}},
}

// RuleNames lists the names that Set takes, in the order of the documentation.
func RuleNames() []string {
	var out []string
	for _, f := range ruleFields {
		out = append(out, f.name)
	}
	return out
}

// Set sets the rule of a name of RuleNames.
func (p *Policy) Set(name string, r Rule) error {
	for _, f := range ruleFields {
		if f.name != name {
			continue
		}
		for _, a := range f.allowed {
			if a == r {
				*f.of(p) = r
				return nil
			}
		}
		return fmt.Errorf("%s %q: not one of %s", name, string(r), joinRules(f.allowed))
	}
	return fmt.Errorf("%q: not one of %s, also, allow, pattern, base", name, strings.Join(RuleNames(), ", "))
}

func joinRules(list []Rule) string {
	var s []string
	for _, r := range list {
		s = append(s, string(r))
	}
	return strings.Join(s, ", ")
}

// fill sets the rules that are not set to their defaults.
func (p *Policy) fill() {
	for _, f := range ruleFields {
		if r := f.of(p); *r == "" {
			*r = f.allowed[0]
		}
	}
}

// maxPolicy bounds the size of a policy file, in bytes.
const maxPolicy = 1 << 20

// ParsePolicy reads a policy file: lines of a name and a value, and comments
// after #. See docs/redact.md. The error names the line.
func ParsePolicy(r io.Reader) (Policy, error) {
	var p Policy
	b, err := io.ReadAll(io.LimitReader(r, maxPolicy+1))
	if err != nil {
		return p, err
	}
	if len(b) > maxPolicy { // what is not read would not be redacted
		return p, fmt.Errorf("more than %d bytes", maxPolicy)
	}
	sc := bufio.NewScanner(bytes.NewReader(b))
	sc.Buffer(nil, maxPolicy+1)
	for n := 1; sc.Scan(); n++ {
		if err := p.line(sc.Text()); err != nil {
			return p, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return p, sc.Err()
}

func (p *Policy) line(s string) error {
	s = strings.TrimSpace(s)
	if s == "" || s[0] == '#' {
		return nil
	}
	name, value, _ := strings.Cut(s, " ")
	value = strings.TrimSpace(value)
	if name != "pattern" { // # may be meant there
		value, _, _ = strings.Cut(value, " #")
		value = strings.TrimSpace(value)
	}
	if value == "" {
		return fmt.Errorf("%q: want a name and a value", s)
	}
	switch name {
	case "base":
		b, ok := Named(value)
		if !ok {
			return fmt.Errorf("base %q: not one of default, strict", value)
		}
		b.Also, b.Allow, b.Patterns = p.Also, p.Allow, p.Patterns
		*p = b
	case "also":
		p.Also = append(p.Also, value)
	case "allow":
		p.Allow = append(p.Allow, value)
	case "pattern":
		re, err := regexp.Compile(value)
		if err != nil {
			return fmt.Errorf("pattern: %w", err)
		}
		p.Patterns = append(p.Patterns, re)
	default:
		return p.Set(name, Rule(value))
	}
	return nil
}

// Named returns the policy of a name: default or strict.
func Named(name string) (Policy, bool) {
	switch name {
	case "default":
		return Default(), true
	case "strict":
		return Strict(), true
	}
	return Policy{}, false
}
