// Package index keeps what was found out about the addresses of an object: the
// symbol that holds each, and the functions and source lines that the compiler
// put there. An index is a file of its own beside a cache, or a member of an
// archive; with it the next look-up of the same code needs neither symbol
// table nor debug information.
//
// An index belongs to one Build ID, and to the very files it was made from: it
// has a fingerprint of them. It is never trusted: every block of it has a
// checksum that is compared before use, and every number is checked against
// what it points to. An index that is damaged is as good as none.
//
// The format is specified in docs/index.md.
package index

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/objfile"
)

// ErrDamaged says that an index is not what it was written as, or no index at
// all. Whoever meets it goes on as if there were none.
var ErrDamaged = errors.New("damaged index")

// Version is the version of the format, and of the rules by which names are
// chosen and printed. An index of another version is as good as none.
const Version = 1

const (
	magic      = "PFKINDEX"
	headerSize = 256
	blockSize  = 16 << 10
	maxRecords = 1 << 28 // of one section
	maxString  = 1 << 20 // bytes
	maxChain   = 1 << 12 // frames at one address
)

// The sections, in the order in which they follow the header.
const (
	secSymbolRanges = iota // ranges of addresses → symbols
	secFrameRanges         // ranges of addresses → frames
	secSymbols
	secFrames
	secStrings // count is in bytes
	sections
)

// flagMangled says that the name of a frame is mangled.
const flagMangled = 1

// recordSize is the size of the records of each section, in bytes.
var recordSize = [sections]int64{rangeSize, rangeSize, 24, 32, 1}

const rangeSize = 16

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// An Identity says what an index is of.
type Identity struct {
	ID      buildid.ID      // of the object; it must have one
	Sources [32]byte        // fingerprint of the files it was made from, see Fingerprint
	Layout  [32]byte        // of the code, see objfile.File.Layout: the same for a stripped copy
	Quality objfile.Quality // of the best of the files
}

// Serves reports whether an index with identity x may be used where files of
// identity want are at hand: it is of those files, or of better ones of the
// same program. Where no file is at hand, want has nothing but the ID.
func (x Identity) Serves(want Identity) bool {
	if !x.ID.Match(want.ID) {
		return false
	}
	if want == (Identity{ID: want.ID}) {
		return true
	}
	if x.Layout != want.Layout {
		return false
	}
	return x.Sources == want.Sources || x.Quality > want.Quality
}

// An Input is a file that an index is made from.
type Input struct {
	io.ReaderAt
	Size int64 // bytes
}

// Fingerprint returns a hash that tells apart the files of an object: of their
// sizes, their beginnings with the headers, and their ends with the section
// headers and names. Reading all of a large file would take longer than what
// an index saves.
func Fingerprint(inputs ...Input) (sum [32]byte, err error) {
	const head, tail = 4 << 10, 16 << 10
	h := sha256.New()
	for _, in := range inputs {
		b := binary.LittleEndian.AppendUint64(nil, uint64(in.Size))
		b = append(b, make([]byte, min(in.Size, head+tail))...)
		n := min(in.Size, head)
		if err := readFull(in, b[8:8+n], 0); err != nil {
			return sum, err
		}
		if err := readFull(in, b[8+n:], in.Size-int64(len(b[8+n:]))); err != nil {
			return sum, err
		}
		h.Write(b)
	}
	h.Sum(sum[:0])
	return sum, nil
}

// A Symbol is what holds an address.
type Symbol struct {
	Name       string // as printed
	Linkage    string // as in the symbol table
	Start, End uint64 // half-open, in the addresses of the index
}

// A Frame is a function at an address, and the line there.
type Frame struct {
	Name    string // as printed; "" if unknown
	Linkage string // as in the debug information
	Mangled bool   // Linkage is mangled; it is demangled when it is needed, unless Name is set
	File    string // "" if unknown
	Line    uint32 // 0 if unknown
	Start   uint64 // of the function with the machine code, in the addresses of the index; 0 if unknown
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}
