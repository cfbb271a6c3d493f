package record

import "github.com/perfark/perfark/buildid"

// Copies says where the recorder puts files that would not be where they were
// when somebody asks for them: deleted ones, those in memory, of other mount
// namespaces, on file systems that come and go, and those that are replaced
// while it records; perf maps and jitdumps of processes, by the number that the
// recording has. The zero value keeps none.
type Copies struct {
	// Dir is a tree in the layout of ~/.debug (store.Cache), made if there is
	// something to put into it; "" keeps no copies.
	Dir string

	MaxBytes int64 // of all files of a recording; 0 means 1 GiB
	MaxFile  int64 // bytes of one file; 0 means 512 MiB
	MaxFiles int   // 0 means 10000
}

// Defaults of Copies.
const (
	copiesMaxBytes = 1 << 30
	copiesMaxFile  = 512 << 20
	copiesMaxFiles = 10000
)

func (c *Copies) defaults() {
	if c.MaxBytes == 0 {
		c.MaxBytes = copiesMaxBytes
	}
	if c.MaxFile == 0 {
		c.MaxFile = copiesMaxFile
	}
	if c.MaxFiles == 0 {
		c.MaxFiles = copiesMaxFiles
	}
}

// CopyStats say which copies were made. The zero value: none.
type CopyStats struct {
	Files int   // in the tree, with those that were there before
	Bytes int64 // that were read for them
	Left  []LeftOut
	More  int // that were left out too, and are not in Left
}

// A LeftOut is a file that would have been copied.
type LeftOut struct {
	Path string     // as it was mapped
	ID   buildid.ID // "" if it has none, or it is not known
	Why  string
}

// leftMost is how many of the files that were left out are named.
const leftMost = 100

func (s *CopyStats) leave(path string, id buildid.ID, why string) {
	if len(s.Left) == leftMost {
		s.More++
		return
	}
	s.Left = append(s.Left, LeftOut{path, id, why})
}
