package objfile

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/perfark/perfark/internal/decode"
)

// A stringTable yields strings by their offset. It is read where it is asked
// for: of the names in a table of a hundred megabytes, a profile needs a few.
// It is safe for concurrent use.
type stringTable struct {
	r      io.ReaderAt // nil if text is the table
	off    int64
	size   uint64
	budget *decode.Budget

	mu   sync.Mutex
	text string
}

// textTable returns a table that is in memory.
func textTable(s string) *stringTable { return &stringTable{text: s, size: uint64(len(s))} }

// lazyTable returns the table of size bytes at off in the file.
func (f *File) lazyTable(off, size uint64) (*stringTable, error) {
	if size > uint64(f.size) || off > uint64(f.size)-size {
		return nil, &decode.Error{Offset: int64(off), Field: "string table", Why: fmt.Sprintf("%d bytes wanted, but the file has %d", size, f.size)}
	}
	if size > math.MaxUint32 {
		return nil, &decode.Error{Offset: int64(off), Field: "string table", Why: "over 4 GiB"}
	}
	return &stringTable{r: f.r, off: int64(off), size: size, budget: f.budget}, nil
}

// shortName is the longest name that is read by itself, in bytes. For a
// longer one all of the table is read, once: thousands of symbols may share
// one name of a megabyte, or have ends of it.
const shortName = 4096

// at returns the NUL-terminated string at off, of at most max bytes. It
// is "" beyond the end, and if the table cannot be read.
func (t *stringTable) at(off uint32, max int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.r == nil {
		return cstring(t.text, off, max)
	}
	for _, n := range [...]int{128, shortName} {
		if uint64(off) >= t.size {
			return ""
		}
		buf := make([]byte, min(uint64(n), t.size-uint64(off)))
		if m, _ := t.r.ReadAt(buf, t.off+int64(off)); m < len(buf) {
			return ""
		}
		i := bytes.IndexByte(buf, 0)
		if i < 0 && len(buf) < n || i < 0 && n >= max {
			i = len(buf)
		}
		if i >= 0 {
			return string(buf[:min(i, max)])
		}
	}
	if err := t.load(); err != nil {
		return ""
	}
	return cstring(t.text, off, max)
}

// whole returns all of the table.
func (t *stringTable) whole() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text, t.load()
}

// load reads the table into text, without a second copy of it.
func (t *stringTable) load() error {
	if t.r == nil {
		return nil
	}
	if err := t.budget.Alloc(int64(t.size), "elf: string table"); err != nil {
		return err
	}
	var sb strings.Builder
	sb.Grow(int(t.size))
	n, err := io.CopyBuffer(struct{ io.Writer }{&sb}, io.NewSectionReader(t.r, t.off, int64(t.size)), make([]byte, 64<<10))
	if err == nil && uint64(n) < t.size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return err
	}
	t.text, t.r = sb.String(), nil
	return nil
}
