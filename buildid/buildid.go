// Package buildid holds the identity that joins everything: the Build ID a
// linker writes into a binary, the kernel reports for a mapping, perf stores
// in perf.data and names files by in ~/.debug.
package buildid

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/perfark/perfark/internal/decode"
)

// MaxSize is the longest id accepted, in bytes. GNU ids are 8 to 20 bytes
// long, ids given to the linker by hand may be longer; perf cuts them to 20.
const MaxSize = 64

// An ID is a Build ID as raw bytes. The zero value means there is none. IDs
// can be compared with == and are map keys; see Match for the ids of old
// perf.data files.
type ID string

// New makes an ID of b. Empty and all-zero bytes are no id: several tool
// chains leave zeros where they compute none, and such programs must not be
// taken for one another.
func New(b []byte) ID {
	for _, x := range b {
		if x != 0 {
			return ID(b)
		}
	}
	return ""
}

// Parse reads an id in hex, of either case, of up to MaxSize bytes. An
// all-zero id parses as no id.
func Parse(s string) (ID, error) {
	if s == "" {
		return "", fmt.Errorf("build id is empty")
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		return "", fmt.Errorf("build id %q: not an even number of hex digits", s)
	}
	if len(b) > MaxSize {
		return "", fmt.Errorf("build id %q: %d bytes, at most %d are allowed", s, len(b), MaxSize)
	}
	return New(b), nil
}

// String returns the id as lower-case hex digits; "" if there is none.
func (id ID) String() string { return hex.EncodeToString([]byte(id)) }

// MarshalText returns the id as hex.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText accepts what Parse accepts, and "" for no id.
func (id *ID) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*id = ""
		return nil
	}
	*id, err = Parse(string(b))
	return err
}

// Match reports whether a and b name the same binary: they are equal, or one
// is the other as perf stores it. perf before 5.10 pads short ids to 20 bytes
// with zeros, and every perf cuts longer ones to 20. No id matches nothing.
func (a ID) Match(b ID) bool {
	if a == "" || b == "" {
		return false
	}
	if a == b {
		return true
	}
	if len(a) > len(b) {
		a, b = b, a
	}
	if !strings.HasPrefix(string(b), string(a)) {
		return false
	}
	if len(a) == 20 {
		return true // cut by perf
	}
	return len(b) == 20 && len(a) >= 4 && New([]byte(b[len(a):])) == ""
}

// Trim returns the id without the zero padding of perf before 5.10: a 20-byte
// id that ends in 4 or 12 zero bytes was a 16- or 8-byte one.
func (id ID) Trim() ID {
	if len(id) == 20 {
		for _, n := range [...]int{8, 16} {
			if New([]byte(id[n:])) == "" {
				return id[:n]
			}
		}
	}
	return id
}

// Note types, from include/uapi/linux/elf.h and the Go linker.
const (
	noteGNUBuildID = 3
	noteGoBuildID  = 4
)

// Notes is what the notes of a binary say about its identity.
type Notes struct {
	GNU ID     // the first note "GNU", type 3
	All []ID   // all distinct ones; a sound binary has at most one
	Go  string // the note "Go", type 4: text such as "abc/def/ghi/jkl"; "" if absent
}

// ParseNotes reads a note section or segment (Elf32_Nhdr and Elf64_Nhdr are
// the same), such as /sys/kernel/notes. Names and descriptors are padded to
// align bytes, which is 4 or 8, counted from the beginning of the note. Damaged notes end the parsing; what stood
// before them is returned with the error. Of several ids the first counts.
func ParseNotes(b []byte, off int64, big bool, align int) (Notes, error) {
	if align != 8 {
		align = 4
	}
	var n Notes
	c := decode.NewCursor(b, off, big)
	for c.Len() >= 12 {
		namesz := c.Length32("note.namesz")
		descsz := c.Length32("note.descsz")
		typ := c.Uint32("note.type")
		name := c.Bytes(namesz, "note.name")
		pad(&c, 12+namesz, align)
		desc := c.Bytes(descsz, "note.desc")
		if c.Err() != nil {
			return n, c.Err()
		}
		pad(&c, descsz, align)
		switch {
		case typ == noteGNUBuildID && string(name) == "GNU\x00" && len(desc) <= MaxSize:
			n.add(New(desc))
		case typ == noteGoBuildID && string(name) == "Go\x00\x00" && n.Go == "":
			n.Go = string(desc)
		}
	}
	return n, nil
}

// add adds an id. Few are kept: hostile notes have many.
func (n *Notes) add(id ID) {
	if id == "" || len(n.All) >= 8 || slices.Contains(n.All, id) {
		return
	}
	n.All = append(n.All, id)
	n.GNU = n.All[0]
}

// pad skips the padding after a field of n bytes; the last may lack it.
func pad(c *decode.Cursor, n, align int) {
	c.Skip(min((align-n%align)%align, c.Len()), "note.padding")
}
