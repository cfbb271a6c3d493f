package store

import (
	"errors"
)

// pick chooses among files that all answer k, in the order they were found,
// and closes the others. Of one program the file that can name most wins, a
// whole one before a slim one, the first if several can. Of two programs with one id (their code differs) the
// one that a process has mapped wins, else the one bound to the asked path; if
// none is, or two are, there is no telling and all are refused.
func pick(k Key, files []*File) (*File, error) {
	files = distinct(files)
	if len(files) == 1 {
		return files[0], nil
	}
	if k.Kind != ELF && k.Kind != Debug {
		return keep(files, 0), nil
	}
	var (
		best   = 0
		bestQ  worth
		hashes = make([]string, len(files))
	)
	for i, f := range files {
		q, hash := inspect(f, k.Kind == ELF)
		hashes[i] = hash
		if i == 0 || q > bestQ {
			best, bestQ = i, q
		}
	}
	tellApart(files, hashes)
	if !differ(hashes) {
		// One program, wherever it lay: the best copy is bound if any is.
		bound := false
		for _, f := range files {
			bound = bound || f.Bound
		}
		f := keep(files, best)
		f.Bound = f.Bound || bound && hashes[best] != ""
		return f, nil
	}
	// The strongest tie to the asked path decides, if all that have it agree.
	for tie := byProcess; tie > byID; tie-- {
		var tied, rest []*File
		var tiedHashes []string
		for i, f := range files {
			if f.tie() >= tie && hashes[i] != "" {
				tied = append(tied, f)
				tiedHashes = append(tiedHashes, hashes[i])
			} else {
				rest = append(rest, f)
			}
		}
		if len(tied) > 0 && !differ(tiedHashes) {
			closeAll(rest)
			return pick(k, tied)
		}
	}
	err := &RefusedError{
		Path:   files[0].Origin,
		Reason: Ambiguous,
		Why:    "build id " + k.ID.String() + " is also that of a different program, " + other(files, hashes),
		Got:    k.ID,
	}
	closeAll(files)
	return nil, err
}

// Ties of a file to the path it is asked for by.
const (
	byID      = iota // it has the id, no more
	byPath           // File.Bound
	byProcess        // a process of the recording has it mapped
)

func (f *File) tie() int {
	switch {
	case f.mapped:
		return byProcess
	case f.Bound:
		return byPath
	}
	return byID
}

// other names the first file whose code is not that of the first one.
func other(files []*File, hashes []string) string {
	for i := range files {
		if hashes[i] != "" && hashes[i] != hashes[0] {
			return files[i].Origin
		}
	}
	return files[0].Origin
}

// differ reports whether there are two hashes that are not the same. An empty
// one is not known and differs from none.
func differ(hashes []string) bool {
	first := ""
	for _, h := range hashes {
		switch {
		case h == "":
		case first == "":
			first = h
		case h != first:
			return true
		}
	}
	return false
}

// distinct drops files that are the same as an earlier one, and closes them.
func distinct(files []*File) []*File {
	var out []*File
next:
	for _, f := range files {
		for _, g := range out {
			if sameFile(f, g) {
				g.Bound = g.Bound || f.Bound
				g.mapped = g.mapped || f.mapped
				g.Unverified = g.Unverified && f.Unverified
				f.Close()
				continue next
			}
		}
		out = append(out, f)
	}
	return out
}

// keep closes all files but the i-th, which it returns.
func keep(files []*File, i int) *File {
	for j, f := range files {
		if j != i {
			f.Close()
		}
	}
	return files[i]
}

func closeAll(files []*File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
