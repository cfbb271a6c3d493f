// Package dwarf answers which functions and source lines an address belongs
// to, from debug information in DWARF versions 2 to 5: the function with the
// machine code, and those that the compiler inlined into it.
//
// In go the debug sections of one object file, out come frames. Nothing is
// read before it is asked for: the first question reads the headers of the
// compilation units, and each unit is parsed when an address falls into it.
//
// The input is hostile. No length or count is believed before it is compared
// with the bytes that are left, each reference is followed a bounded number of
// times, and where many entries share the same bytes the work done for them is
// bounded by a multiple of the input. A damaged unit gives what was read
// before the damage; Warnings says so.
//
// Source: DWARF Debugging Information Format, versions 2 to 5; the GNU
// extensions for split (https://gcc.gnu.org/wiki/DebugFission) and for shared
// debug information (dwz).
package dwarf

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/perfark/perfark/internal/decode"
)

// ErrNoInfo says that there is no .debug_info section, or an empty one.
var ErrNoInfo = errors.New("no debug information")

// A Section is the contents of a section: in memory, in a file, or to be
// made from what is in one.
type Section struct {
	Data []byte                 // the contents, which must not change
	Load func() ([]byte, error) // if it is set, yields Data when they are needed; called once
	R    io.ReaderAt            // else, where they are read from; safe for concurrent use; of .debug_info, its Check() error is called once
	Off  int64                  // where they begin in R, in bytes
	Size int64                  // what is in R, or what Load yields, in bytes
}

// Sections returns the contents of the section of that name, such as
// ".debug_info", decompressed and relocated; the zero Section if there is
// none. It is called once for each name, by any goroutine.
type Sections func(name string) (Section, error)

// A SplitUnit says where the rest of a compilation unit is, of which only a
// skeleton is in this file (-gsplit-dwarf).
type SplitUnit struct {
	ID      uint64 // the DWO id that the other file must have for it
	Name    string // path of the .dwo file as the compiler wrote it; bytes
	CompDir string // what a relative Name is relative to; bytes
}

// Options says how debug information is read. The zero value is that of a
// little-endian file that needs no other.
type Options struct {
	Name   string         // of the file, for errors
	Big    bool           // values are big-endian
	Budget *decode.Budget // for what is allocated; nil means the default limits

	// MinAddr is the lowest address of code. Ranges that begin below are those
	// of functions which the linker dropped. 0 means that none are.
	MinAddr uint64

	// DWO says that this is a .dwo or .dwp file, which answers only through
	// the file with its skeletons.
	DWO bool

	// Alt opens the file that this one shares entries and strings with (dwz,
	// .gnu_debugaltlink or .debug_sup). It is called at most once, when it is
	// needed. The caller has compared its id. nil: there is none.
	Alt func() (*Data, error)

	// Split opens the .dwo or .dwp file, read with DWO set, that holds the
	// rest of a unit. What has no unit of that ID is not used. It is called by
	// any goroutine, once for each unit that is asked about. nil: there is none.
	Split func(SplitUnit) (*Data, error)

	// Sum, if set, is told the MD5 of source files whose lines are asked for,
	// where the line table has it (DWARF 5). It is called by any goroutine,
	// perhaps several times for one file.
	Sum func(file string, md5 [16]byte)

	// CacheBytes bounds what is kept of parsed units; 0 means 24 MiB and the
	// size of .debug_info, at most 128 MiB. Units that were
	// dropped are parsed again when asked for.
	CacheBytes int64
}

// What is kept of parsed units by default, in bytes.
const (
	minCache = 24 << 20
	maxCache = 128 << 20
)

// A Frame is a function at an address, and the line there.
type Frame struct {
	Name    string // "" if unknown; bytes. With its namespaces and classes if it is not as in the symbol table
	Linkage bool   // Name is as in the symbol table, of C++ and Rust: mangled
	Inlined bool   // the function has no code of its own here
	File    string // path, joined with the directory of compilation; "" if unknown; bytes
	Line    int    // from 1; 0: unknown, or code that belongs to no line
	Column  int    // from 1; 0: unknown
	Discr   int    // discriminator: tells blocks of one line apart; 0: none
	Start   uint64 // where the function with the machine code begins
}

// maxFrames bounds the frames of one address. Compilers stop far earlier.
const maxFrames = 1024

// Data is the debug information of a file. Its methods are safe for
// concurrent use. The sections must stay readable as long as it is used.
type Data struct {
	opt  Options
	secs [numSections]section

	indexOnce sync.Once
	indexErr  error
	heads     []unitHead // by offset
	opened    []atomic.Pointer[unit]
	ranges    []unitRange
	unranged  []int32 // units that have code and say not where
	scanOnce  sync.Once
	scanned   []unitRange

	abbrevs abbrevCache
	names   nameCache
	scopes  scopeCache
	cache   unitCache
	dwp     dwpIndex

	altOnce sync.Once
	alt     *Data

	// amp counts bytes read where entries can share them: it is what bounds
	// the work that a small file can ask for.
	amp [numSections]atomic.Int64

	warnMu   sync.Mutex
	warnings []string
	warned   map[string]bool
}

// New returns the debug information in the sections. It reads nothing yet but
// finds out if there is any: the error wraps ErrNoInfo if not.
func New(s Sections, o Options) (*Data, error) {
	if o.Budget == nil {
		o.Budget = decode.NewBudget(decode.Limits{})
	}
	d := &Data{opt: o}
	for i := range d.secs {
		sec := &d.secs[i]
		sec.name = sectionNames[i]
		if o.DWO {
			sec.name = dwoName(sec.name)
		}
		sec.load, sec.budget = s, o.Budget
	}
	n, err := d.secs[secInfo].size()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Name, err)
	}
	if n == 0 {
		return nil, fmt.Errorf("%s: %w", o.Name, ErrNoInfo)
	}
	d.cache.limit = o.CacheBytes
	if o.CacheBytes <= 0 {
		d.cache.limit = min(minCache+n, maxCache)
	}
	return d, nil
}

// Warnings returns what was passed over so far, each once: damaged units, and
// other files that were not found.
func (d *Data) Warnings() []string {
	d.warnMu.Lock()
	defer d.warnMu.Unlock()
	return append([]string(nil), d.warnings...)
}

// maxWarnings bounds the warnings kept: a file can have a defect in every
// unit.
const maxWarnings = 16

func (d *Data) warn(format string, args ...any) {
	text := d.opt.Name + ": " + fmt.Sprintf(format, args...)
	d.warnMu.Lock()
	defer d.warnMu.Unlock()
	if len(d.warnings) >= maxWarnings || d.warned[text] {
		return
	}
	if d.warned == nil {
		d.warned = map[string]bool{}
	}
	d.warned[text] = true
	d.warnings = append(d.warnings, text)
}

// share asks to read n bytes of a section that other entries may have read
// already. Together they may read a multiple of its size and some more. What
// is asked for after that was read, share(sec, 0) tells before.
func (d *Data) share(sec int, n int) error {
	size, _ := d.secs[sec].size()
	factor, more := int64(8), int64(8<<20)
	switch sec {
	case secAbbrev:
		factor, more = 3, 1<<20 // a table takes ten times its size in memory
	case secRanges, secRnglists:
		factor = 24 // see rangeList
	}
	if d.amp[sec].Add(int64(n)) > size*factor+more {
		return fmt.Errorf("%s: entries share more than %d times its %d bytes", d.secs[sec].name, factor, size)
	}
	return nil
}
