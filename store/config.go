package store

import (
	"fmt"
	"path/filepath"
	"strings"
)

// A Setting is a line of perf's configuration.
type Setting struct {
	Section string // in lower case; with a subsection "section.Sub"
	Key     string // in lower case
	Value   string // "true" for a key without one
}

// ParseConfig reads a perfconfig file, whose form is that of git's: sections in
// brackets, lines KEY = VALUE, comments after # or ;, quotes, escapes \\ \" \n
// \t \b, and lines that go on after a backslash. What was read before an error
// is returned with it.
//
// Source: perf-config(1); git-config(1), "Syntax".
func ParseConfig(b []byte) ([]Setting, error) {
	p := configParser{s: strings.ReplaceAll(strings.TrimPrefix(string(b), "\ufeff"), "\r\n", "\n"), line: 1}
	err := p.parse()
	if err != nil {
		err = fmt.Errorf("line %d: %w", p.line, err)
	}
	return p.out, err
}

type configParser struct {
	s       string
	line    int
	section string
	out     []Setting
}

// next returns the next byte and consumes it; 0 at the end.
func (p *configParser) next() byte {
	if p.s == "" {
		return 0
	}
	c := p.s[0]
	p.s = p.s[1:]
	if c == '\n' {
		p.line++
	}
	return c
}

func (p *configParser) peek() byte {
	if p.s == "" {
		return 0
	}
	return p.s[0]
}

func (p *configParser) parse() error {
	for p.s != "" {
		switch c := p.peek(); {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == 0:
			p.next()
		case c == '#' || c == ';':
			p.skipLine()
		case c == '[':
			p.next()
			if err := p.parseSection(); err != nil {
				return err
			}
		case isLetter(c):
			if err := p.parseSetting(); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%q begins neither a section nor a key", string(c))
		}
	}
	return nil
}

func (p *configParser) skipLine() {
	for p.s != "" && p.next() != '\n' {
	}
}

func (p *configParser) parseSection() error {
	var name strings.Builder
	for {
		switch c := p.peek(); {
		case c == ']':
			p.next()
			p.section = strings.ToLower(name.String())
			return nil
		case isLetter(c) || isDigit(c) || c == '-' || c == '.' || c == '_':
			name.WriteByte(c)
			p.next()
		case c == ' ' || c == '\t':
			p.next()
			if p.peek() == '"' {
				return p.parseSubsection(strings.ToLower(name.String()))
			}
		default:
			return fmt.Errorf("section %q: no closing bracket", name.String())
		}
	}
}

func (p *configParser) parseSubsection(section string) error {
	p.next()
	var sub strings.Builder
	for {
		c := p.next()
		switch c {
		case '"':
			if p.next() != ']' {
				return fmt.Errorf("section %q: no closing bracket", section)
			}
			p.section = section + "." + sub.String()
			return nil
		case '\\':
			c = p.next()
		}
		if c == 0 || c == '\n' {
			return fmt.Errorf("section %q: no closing quote", section)
		}
		sub.WriteByte(c)
	}
}

func (p *configParser) parseSetting() error {
	var key strings.Builder
	for c := p.peek(); isLetter(c) || isDigit(c) || c == '-' || c == '_'; c = p.peek() {
		key.WriteByte(c)
		p.next()
	}
	for c := p.peek(); c == ' ' || c == '\t'; c = p.peek() {
		p.next()
	}
	value := "true"
	switch c := p.peek(); c {
	case 0, '\n', '#', ';', '\r':
	case '=':
		p.next()
		var err error
		if value, err = p.parseValue(); err != nil {
			return fmt.Errorf("key %q: %w", key.String(), err)
		}
	default:
		return fmt.Errorf("key %q: %q where an = belongs", key.String(), string(c))
	}
	if p.section == "" {
		return fmt.Errorf("key %q: before any section", key.String())
	}
	p.out = append(p.out, Setting{p.section, strings.ToLower(key.String()), value})
	return nil
}

// parseValue reads to the end of the line. Blanks at both ends go, unless they
// are in quotes.
func (p *configParser) parseValue() (string, error) {
	var b strings.Builder
	quoted, comment := false, false
	end := 0 // of b without trailing blanks
	for {
		c := p.next()
		switch {
		case c == 0 && p.s == "" || c == '\n':
			if quoted {
				return "", fmt.Errorf("no closing quote")
			}
			return b.String()[:end], nil
		case comment:
		case (c == ' ' || c == '\t' || c == '\r') && !quoted:
			if b.Len() > 0 {
				b.WriteByte(c)
			}
		case (c == '#' || c == ';') && !quoted:
			comment = true
		case c == '"':
			quoted = !quoted
			end = b.Len()
		case c == '\\':
			switch c = p.next(); c {
			case '\n':
				continue
			case 'n':
				c = '\n'
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case '\\', '"':
			default:
				return "", fmt.Errorf("unknown escape \\%s", string(c))
			}
			b.WriteByte(c)
			end = b.Len()
		default:
			b.WriteByte(c)
			end = b.Len()
		}
	}
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// Places says where ~/.debug trees may be, in words of the environment, which
// only the caller reads.
type Places struct {
	Dir      string   // of --buildid-dir or PERF_BUILDID_DIR; "" if not given
	Configs  [][]byte // contents of perfconfig files, the ones that count more first: ~/.perfconfig, /etc/perfconfig
	Home     string   // HOME; "" if not set
	SudoHome string   // home of SUDO_USER; "" if there is none
}

// Dirs returns the directories, without doubles. The first is the one perf
// would use: that given, else buildid.dir of the configuration, else
// HOME/.debug, else .debug in the current directory. Behind it come the others
// in which something may be. A configuration that cannot be read to its end
// counts as far as it can; the error names the first such.
func (p Places) Dirs() ([]string, error) {
	var (
		dirs []string
		errs error
	)
	add := func(dir string) {
		if dir == "" {
			return
		}
		dir = filepath.Clean(dir)
		for _, d := range dirs {
			if d == dir {
				return
			}
		}
		dirs = append(dirs, dir)
	}
	add(p.Dir)
	for _, b := range p.Configs {
		list, err := ParseConfig(b)
		if err != nil && errs == nil {
			errs = fmt.Errorf("perfconfig: %w", err)
		}
		value := ""
		for _, s := range list {
			if s.Section == "buildid" && s.Key == "dir" {
				value = s.Value
			}
		}
		add(expand(value, p.Home))
	}
	if p.Home != "" {
		add(filepath.Join(p.Home, ".debug"))
	}
	if p.SudoHome != "" {
		add(filepath.Join(p.SudoHome, ".debug"))
	}
	if len(dirs) == 0 {
		dirs = []string{".debug"}
	}
	return dirs, errs
}

// expand replaces a ~ at the start of a directory.
func expand(dir, home string) string {
	if rest, ok := strings.CutPrefix(dir, "~/"); ok && home != "" {
		return filepath.Join(home, rest)
	}
	return dir
}
