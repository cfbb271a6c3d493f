package redact

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Kinds of names: the beginnings of their pseudonyms.
const (
	kindHost      = "host"
	kindDomain    = "domain"
	kindUser      = "user"
	kindSecret    = "secret"
	kindContainer = "container"
	kindID        = "id"
	kindURL       = "url"
	kindArg       = "arg"
	kindComm      = "comm"
	kindDir       = "dir"
	kindFile      = "file"
	kindWord      = "word"
)

// A word is a name that is replaced wherever it stands.
type word struct {
	old  string
	kind string
	new  string

	// bound: only where no letter or digit stands beside it. textOnly: not in
	// binary data, where it may stand by chance.
	bound, textOnly bool
}

// Words of fewer bytes stand by chance in too many places to be replaced
// everywhere; so do those that mean something to everybody.
const minStrong = 4

var commonWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`
		localhost localdomain debian ubuntu linux fedora centos alpine arch redhat amazon
		root user users admin administrator test tests testing app apps web node host hosts
		server client build builder runner vagrant docker podman container git github gitlab jenkins
		postgres mysql oracle data dev home main perf kernel none null true false bash
		python java default master worker service services system systemd local shared share
		public guest nobody www-data ec2-user core tmp temp work workspace project projects
		src lib libs bin opt usr var etc proc sys boot media mnt run srv cache config
		debug release static dynamic internal external common base file files log logs
		name path open read write init exec sleep start stop go rust node.js perl ruby
		unknown localnet example hostname username yes auto production staging prod stage
	`) {
		m[w] = true
	}
	return m
}()

func common(s string) bool { return commonWords[strings.ToLower(s)] }

// names gives pseudonyms: the same to the same name.
type names struct {
	key  []byte
	of   map[string]string // kind, NUL and name → pseudonym
	next map[string]int    // by kind
	used func(string) bool // a pseudonym that stands in the recording as it is; nil for none
}

func newNames(key []byte) *names {
	return &names{key: key, of: map[string]string{}, next: map[string]int{}}
}

func (n *names) get(kind, name string) string {
	k := kind + "\x00" + name
	if p, ok := n.of[k]; ok {
		return p
	}
	var p string
	if len(n.key) > 0 {
		h := hmac.New(sha256.New, n.key)
		h.Write([]byte(k))
		p = kind + "-" + hex.EncodeToString(h.Sum(nil)[:5])
	} else {
		for {
			n.next[kind]++
			p = fmt.Sprintf("%s%d", kind, n.next[kind])
			if n.used == nil || !n.used(p) {
				break
			}
		}
	}
	n.of[k] = p
	return p
}

// fit makes a pseudonym n bytes long, for places where nothing may move.
func fit(p string, n int) string {
	if len(p) >= n {
		return p[len(p)-n:] // the number is what tells it from others
	}
	return p + strings.Repeat("x", n-len(p))
}

// A dictionary is the words, and finds them.
type dictionary struct {
	words []*word
	have  map[string]*word
	allow map[string]bool

	built bool
	pairs [1 << 10]uint64       // bit set of the first two bytes
	by    map[uint16][]spelling // longest first
}

// A spelling is a word as it may stand somewhere.
type spelling struct {
	text string
	w    *word
}

func newDictionary(allow []string) *dictionary {
	d := &dictionary{have: map[string]*word{}, allow: map[string]bool{}}
	for _, a := range allow {
		d.allow[strings.ToLower(a)] = true
	}
	return d
}

// add adds a word, unless it is there or allowed.
func (d *dictionary) add(w word) {
	k := strings.ToLower(w.old)
	if len(w.old) < 2 || d.allow[k] || d.have[k] != nil {
		return
	}
	d.have[k] = &w
	d.words = append(d.words, &w)
	d.built = false
}

// forget removes the words that drop says.
func (d *dictionary) forget(drop func(*word) bool) {
	d.words = slices.DeleteFunc(d.words, func(w *word) bool {
		if !drop(w) {
			return false
		}
		delete(d.have, strings.ToLower(w.old))
		return true
	})
	d.built = false
}

func (d *dictionary) build() {
	d.built = true
	d.pairs = [1 << 10]uint64{}
	d.by = map[uint16][]spelling{}
	for _, w := range d.words {
		lower := strings.ToLower(w.old)
		texts := []string{w.old, lower, strings.ToUpper(w.old), strings.ToUpper(lower[:1]) + lower[1:]}
		if w.textOnly {
			texts = texts[:1]
		}
		slices.Sort(texts)
		for _, t := range slices.Compact(texts) {
			if len(t) < 2 {
				continue
			}
			p := uint16(t[0])<<8 | uint16(t[1])
			d.pairs[p/64] |= 1 << (p % 64)
			d.by[p] = append(d.by[p], spelling{t, w})
		}
	}
	for _, list := range d.by {
		slices.SortStableFunc(list, func(a, b spelling) int {
			return cmp.Or(cmp.Compare(len(b.text), len(a.text)), strings.Compare(a.text, b.text))
		})
	}
}

// find returns where the next word in b from a place on is, and its length; nil
// if there is none. In binary data words that are for texts alone are passed
// over.
func (d *dictionary) find(b []byte, from int, binary bool) (at, n int, w *word) {
	if len(d.words) == 0 {
		return 0, 0, nil
	}
	for i := from; i+1 < len(b); i++ {
		p := uint16(b[i])<<8 | uint16(b[i+1])
		if d.pairs[p/64]>>(p%64)&1 == 0 {
			continue
		}
		for _, s := range d.by[p] {
			if len(s.text) <= len(b)-i && string(b[i:i+len(s.text)]) == s.text &&
				!(binary && (s.w.textOnly || len(s.text) < sureInBinary && !inText(b, i, i+len(s.text)))) && (!s.w.bound || alone(b, i, i+len(s.text))) {
				return i, len(s.text), s.w
			}
		}
	}
	return 0, 0, nil
}

// Shorter spellings stand by chance in code and numbers: they count where the
// bytes beside them are those of a text.
const sureInBinary = 6

func inText(b []byte, i, j int) bool {
	return (i == 0 || isTextByte(b[i-1])) && (j == len(b) || isTextByte(b[j]))
}

// isTextByte reports whether a byte may be in or at the end of a text.
func isTextByte(c byte) bool { return c == 0 || c == '\n' || c == '\t' || c >= ' ' && c < 0x7f }

// alone reports whether b[i:j] has no letter or digit beside it. A slash in
// front is its own boundary.
func alone(b []byte, i, j int) bool {
	if j < len(b) && isWordByte(b[j]) {
		return false
	}
	return i == 0 || b[i] == '/' || !isWordByte(b[i-1])
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}

// text replaces the words in a text.
func (d *dictionary) text(s string) string {
	if !d.built {
		d.build()
	}
	b := []byte(s)
	at, n, w := d.find(b, 0, false)
	if w == nil {
		return s
	}
	var out strings.Builder
	from := 0
	for w != nil {
		out.Write(b[from:at])
		out.WriteString(w.new)
		from = at + n
		at, n, w = d.find(b, from, false)
	}
	out.Write(b[from:])
	return out.String()
}

// An edit is bytes that stand in the place of others.
type edit struct {
	off  int64
	data string
}

// homes are the directories below which users have theirs.
var homes = []string{"/home/", "/Users/", "/var/home/", "/export/home/"}

// edits returns what is to be overwritten in binary data that stands at off in
// its file; home says that unknown names of users in paths count too.
func (d *dictionary) edits(b []byte, off int64, home bool) []edit {
	if !d.built {
		d.build()
	}
	var out []edit
	for from := 0; ; {
		at, n, w := d.find(b, from, true)
		if w == nil {
			break
		}
		out = append(out, edit{off + int64(at), fitWord(w, n)})
		from = at + n
	}
	if !home {
		return out
	}
	known := out
	for _, h := range homes[:2] {
		out = d.homeEdits(out, known, b, off, h)
	}
	return out
}

// fitWord is the pseudonym of w in n bytes. That of a home directory keeps the
// path.
func fitWord(w *word, n int) string {
	i := strings.LastIndexByte(w.old, '/')
	if w.kind != kindUser || i < 0 || i+1 >= n {
		return fit(w.new, n)
	}
	return w.old[:i+1] + fit(w.new[strings.LastIndexByte(w.new, '/')+1:], n-i-1)
}

// homeEdits overwrites names of users that are not known.
func (d *dictionary) homeEdits(out, known []edit, b []byte, off int64, dir string) []edit {
	for from := 0; ; {
		i := bytes.Index(b[from:], []byte(dir))
		if i < 0 {
			return out
		}
		at := from + i + len(dir)
		n := userLen(b[at:])
		from = at + n
		if n == 0 || d.allow[strings.ToLower(string(b[at:at+n]))] || replaced(known, off+int64(at), off+int64(at+n)) {
			continue
		}
		out = append(out, edit{off + int64(at), strings.Repeat("x", n)})
	}
}

// replaced reports whether a range is overwritten already. The list is in
// order.
func replaced(list []edit, from, to int64) bool {
	i, _ := slices.BinarySearchFunc(list, from, func(e edit, from int64) int { return cmp.Compare(e.off+int64(len(e.data))-1, from) })
	return i < len(list) && list[i].off < to
}

// userLen returns how long the name of a user is that b begins with; 0 if it
// begins with none.
func userLen(b []byte) int {
	n := 0
	for n < len(b) && n < 64 && (isWordByte(b[n]) || b[n] == '-' || b[n] == '.' && n > 0) {
		n++
	}
	if n == 64 || n > 0 && strings.Trim(string(b[:n]), "x") == "" {
		return 0 // overwritten before
	}
	return n
}

// bytes overwrites the words in binary data, and reports how many there were.
func (d *dictionary) bytes(b []byte) int {
	list := d.edits(b, 0, true)
	for _, e := range list {
		copy(b[e.off:], e.data)
	}
	return len(list)
}
