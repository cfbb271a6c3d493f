package archive

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/store"
)

// ManifestVersion is the version of the manifest that is written. Manifests
// of a later version are refused, unknown fields of this version ignored.
const ManifestVersion = 1

// Limits of a manifest from outside.
const (
	maxManifest      = 64 << 20 // bytes
	maxManifestDepth = 12
	maxManifestLists = 1 << 20 // objects and arrays
)

// A Manifest says what is in an archive, and what should be but is not. It
// holds no clock and no random number: the same inputs make the same bytes.
type Manifest struct {
	Version int       `json:"version"`        // ManifestVersion
	Tool    string    `json:"tool,omitempty"` // such as "perfark 0.1"
	Host    *Host     `json:"host,omitempty"` // nil if redacted
	Data    *Data     `json:"data,omitempty"` // the perf.data the archive was made for
	Objects []Object  `json:"objects"`
	Missing []Missing `json:"missing,omitempty"`

	// Pool is the name of the directory, beside the bundle, that has the files
	// which are Pooled; "" if none is.
	Pool string `json:"pool,omitempty"`

	Coverage *Coverage `json:"coverage,omitempty"` // of the replay before the archive got its name
}

// A Host is where the profile was recorded, as its perf.data tells.
type Host struct {
	Name    string `json:"name,omitempty"`
	Release string `json:"release,omitempty"` // of the kernel
	Arch    string `json:"arch,omitempty"`
	OS      *OS    `json:"os,omitempty"` // nil if the archive was not made there
}

// An OS is a distribution, as its os-release says.
type OS struct {
	ID       string `json:"id,omitempty"`   // debian
	Like     string `json:"like,omitempty"` // what it derives from
	Version  string `json:"version,omitempty"`
	Codename string `json:"codename,omitempty"`
	Name     string `json:"name,omitempty"` // for people
}

// Data describes a perf.data file.
type Data struct {
	Name     Name      `json:"name"` // its base name on the recording host
	Size     int64     `json:"size"` // bytes
	SHA256   string    `json:"sha256"`
	MTime    time.Time `json:"mtime,omitzero"` // UTC; kept by a bundle
	Included bool      `json:"included"`       // it is the member perf.data of this archive
}

// An Object is a thing that was mapped, with the files kept for it. Two
// objects may share an id (linkers do that) or a path (rebuilt programs).
type Object struct {
	ID         buildid.ID `json:"id,omitempty"` // "" if the recording has none
	Kind       string     `json:"kind"`         // file, kernel, module, vdso, perfmap, jitdump
	Paths      []Name     `json:"paths"`        // as recorded, sorted
	GoID       string     `json:"goid,omitempty"`
	PID        int32      `json:"pid,omitempty"` // of a perf map, or jitdump
	Unverified bool       `json:"unverified,omitempty"`
	Samples    uint64     `json:"samples"` // samples with a frame here
	Files      []File     `json:"files"`

	// Inodes are those that were mapped, if the recording has no id but knows
	// them: all that tells two programs of one path apart.
	Inodes []Inode `json:"inodes,omitempty"`
}

// An Inode is a file as a recording identifies it.
type Inode struct {
	Maj        uint32 `json:"maj"` // of the device
	Min        uint32 `json:"min"`
	Number     uint64 `json:"ino"`
	Generation uint64 `json:"gen,omitempty"` // 0 if unknown
}

// isInode reports whether o may be the inode that k asks for.
func (o *Object) isInode(k store.Key) bool {
	return k.Ino == 0 || len(o.Inodes) == 0 || slices.Contains(o.Inodes, Inode{k.Maj, k.Min, k.Ino, k.InoGen})
}

// A File is a file of an object and a member of the archive.
type File struct {
	Kind    store.Kind `json:"kind"`
	Name    Name       `json:"name"` // in the tree, relative to the ~/.debug directory; see ObjectName
	Size    int64      `json:"size"` // bytes
	SHA256  string     `json:"sha256"`
	Quality string     `json:"quality,omitempty"` // of an ELF file: an objfile.Quality
	Whole   int64      `json:"whole,omitempty"`   // size of the original, in bytes, if debug information was left out; else 0
	Pooled  bool       `json:"pooled,omitempty"`  // it is no member: Manifest.Pool has it under its SHA-256
	Slim    bool       `json:"slim,omitempty"`    // only what this profile needs is there, the rest is zeros
	Origin  Name       `json:"origin,omitempty"`  // where it was found on the host that packed it
	Mode    uint32     `json:"mode,omitempty"`    // permissions there; never applied
	UID     uint32     `json:"uid,omitempty"`     // owner there; never applied
	GID     uint32     `json:"gid,omitempty"`
}

// A Missing is an object that is not in the archive.
type Missing struct {
	ID      buildid.ID `json:"id,omitempty"`
	Kind    string     `json:"kind"`
	Path    Name       `json:"path"`
	PID     int32      `json:"pid,omitempty"`
	Samples uint64     `json:"samples"` // samples with a frame here
	Frames  uint64     `json:"frames,omitempty"`
	Reason  string     `json:"reason"`           // a word: deleted, replaced, no-id, unreadable, ...
	Detail  string     `json:"detail,omitempty"` // a sentence
	Hint    string     `json:"hint,omitempty"`   // the command that would fix it
}

// A Name is a name of any bytes, such as a path. In JSON it is a string, or
// {"base64":"..."} if it is not valid UTF-8.
type Name string

type base64Name struct {
	Base64 string `json:"base64"`
}

// MarshalJSON keeps every byte.
func (n Name) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(n)) {
		return marshal(string(n))
	}
	return marshal(base64Name{base64.StdEncoding.EncodeToString([]byte(n))})
}

// UnmarshalJSON reads both forms.
func (n *Name) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '{' {
		var x base64Name
		if err := json.Unmarshal(b, &x); err != nil {
			return err
		}
		s, err := base64.StdEncoding.DecodeString(x.Base64)
		*n = Name(s)
		return err
	}
	return json.Unmarshal(b, (*string)(n))
}

// marshal is json.Marshal without its escapes for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Encode returns the manifest as indented JSON.
func (m *Manifest) Encode() ([]byte, error) {
	b, err := marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// ParseManifest reads a manifest and checks it: its grammar, its sizes and
// sums, and that every name stays in the tree. Duplicate keys, which readers
// resolve differently, are refused.
func ParseManifest(b []byte) (*Manifest, error) {
	if len(b) > maxManifest {
		return nil, fmt.Errorf("manifest: %d bytes, at most %d are allowed", len(b), maxManifest)
	}
	if !utf8.Valid(b) {
		return nil, errors.New("manifest: not valid UTF-8")
	}
	if err := checkJSON(b); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	m := new(Manifest)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("manifest: %w", err)
	}
	return m, nil
}

func (m *Manifest) check() error {
	if m.Version < 1 || m.Version > ManifestVersion {
		return fmt.Errorf("version %d, but this perfark reads 1 to %d", m.Version, ManifestVersion)
	}
	if d := m.Data; d != nil {
		if err := checkSum(d.Size, d.SHA256); err != nil {
			return fmt.Errorf("data: %w", err)
		}
	}
	if m.Pool != "" && (checkName(m.Pool) != nil || strings.Contains(m.Pool, "/")) {
		return fmt.Errorf("pool %q: not the name of a directory beside the bundle", m.Pool)
	}
	for i := range m.Objects {
		for _, f := range m.Objects[i].Files {
			if f.Pooled && m.Pool == "" {
				return fmt.Errorf("objects[%d]: %q: in a pool, but none is named", i, f.Name)
			}
			if err := checkSum(f.Size, f.SHA256); err != nil {
				return fmt.Errorf("objects[%d]: %q: %w", i, f.Name, err)
			}
			if err := checkName(string(f.Name)); err != nil {
				return fmt.Errorf("objects[%d]: %w", i, err)
			}
		}
	}
	return nil
}

func checkSum(size int64, sum string) error {
	if size < 0 {
		return fmt.Errorf("size %d is negative", size)
	}
	if b, err := hex.DecodeString(sum); err != nil || len(b) != 32 || strings.ToLower(sum) != sum {
		return fmt.Errorf("sha256 %q: not 64 lower-case hex digits", sum)
	}
	return nil
}

// checkJSON refuses what encoding/json would let pass: duplicate keys (also
// those that differ in case, which it takes for the same), deep nesting, and
// text after the value.
func checkJSON(b []byte) error {
	type level struct {
		keys map[string]bool // nil in an array
		key  bool            // a key comes next
	}
	var stack []level
	lists := 0
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	for {
		tok, err := d.Token()
		if err == io.EOF && len(stack) > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("offset %#x: %w", d.InputOffset(), err)
		}
		top := len(stack) - 1
		if s, ok := tok.(string); ok && top >= 0 && stack[top].key {
			k := strings.ToLower(s)
			if stack[top].keys[k] {
				return fmt.Errorf("offset %#x: key %q stands twice", d.InputOffset(), s)
			}
			stack[top].keys[k] = true
			stack[top].key = false
			continue
		}
		switch tok {
		case json.Delim('{'):
			stack = append(stack, level{keys: map[string]bool{}, key: true})
		case json.Delim('['):
			stack = append(stack, level{})
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:top]
		}
		if len(stack) > maxManifestDepth {
			return fmt.Errorf("offset %#x: nested deeper than %d", d.InputOffset(), maxManifestDepth)
		}
		if tok == json.Delim('{') || tok == json.Delim('[') {
			if lists++; lists > maxManifestLists {
				return fmt.Errorf("offset %#x: more than %d objects and arrays", d.InputOffset(), maxManifestLists)
			}
			continue
		}
		// A value has ended.
		if len(stack) == 0 {
			break
		}
		if t := &stack[len(stack)-1]; t.keys != nil {
			t.key = true
		}
	}
	if rest := bytes.TrimSpace(b[d.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("offset %#x: %d bytes after the value", d.InputOffset(), len(rest))
	}
	return nil
}
