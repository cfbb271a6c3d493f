package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/perfark/perfark/buildid"
)

// A Reason is why a file that was there is not used.
type Reason string

// The reasons.
const (
	Replaced   Reason = "replaced"   // it carries another Build ID, or is another file than the one mapped
	NoID       Reason = "no id"      // an id is wanted and it carries none
	Untied     Reason = "untied"     // the recording has no id, and nothing else ties the file to it
	Ambiguous  Reason = "ambiguous"  // different programs carry the id
	Deleted    Reason = "deleted"    // the file was removed or lives in memory only, and no process has it mapped
	Unreadable Reason = "unreadable" // permission, I/O error
	NotRegular Reason = "special"    // a FIFO, device, directory, a link that leaves the tree
	Changed    Reason = "changed"    // written to while it was read
	Restricted Reason = "restricted" // kallsyms of zeros
	OtherHost  Reason = "other host" // belongs to a kernel or host that is not the recorded one
	OtherBoot  Reason = "other boot" // belongs to the recorded kernel, but was in memory in another boot, or with other modules
	Malformed  Reason = "malformed"  // cannot be read as what it should be
)

// A RefusedError says that a file was found and why it is not used. It is a
// fs.ErrNotExist to errors.Is: the Source does not have what was asked for.
type RefusedError struct {
	Path   string // of the file, or "archive.perfark: name"
	Reason Reason
	Why    string     // what was found and what was wanted
	Got    buildid.ID // the id the file carries; "" if none was read
	Err    error      // the cause; nil if there is none
}

func (e *RefusedError) Error() string {
	switch {
	case e.Err != nil && e.Why != "":
		return fmt.Sprintf("%q: not used: %s: %v", e.Path, e.Why, e.Err)
	case e.Err != nil:
		return fmt.Sprintf("%q: not used: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("%q: not used: %s", e.Path, e.Why)
}

// Unwrap returns the cause.
func (e *RefusedError) Unwrap() error { return e.Err }

// Is reports whether target is fs.ErrNotExist.
func (e *RefusedError) Is(target error) bool { return target == fs.ErrNotExist }

// Refusals returns all RefusedErrors in err, in order.
func Refusals(err error) []*RefusedError {
	var list []*RefusedError
	var walk func(error)
	walk = func(err error) {
		if r, ok := err.(*RefusedError); ok {
			list = append(list, r)
			return
		}
		switch u := err.(type) {
		case interface{ Unwrap() []error }:
			for _, e := range u.Unwrap() {
				walk(e)
			}
		case interface{ Unwrap() error }:
			if e := u.Unwrap(); e != nil {
				walk(e)
			}
		}
	}
	if err != nil {
		walk(err)
	}
	return list
}

// telling are the reasons why a file is not used, the most telling first.
var telling = []Reason{
	Replaced, Restricted, Unreadable, Changed, Ambiguous, NoID, Untied, Deleted, OtherHost, Malformed, NotRegular,
}

// MostTelling returns that RefusedError in err which tells most about why
// there is no file, the first of equals; nil if there is none.
func MostTelling(err error) *RefusedError {
	refused := Refusals(err)
	for _, reason := range telling {
		for _, r := range refused {
			if r.Reason == reason {
				return r
			}
		}
	}
	if len(refused) > 0 {
		return refused[0]
	}
	return nil
}

// A search collects what a Source met on the way to a file.
type search struct {
	key     Key
	refused []error
}

// note keeps why a candidate is not used; a missing one is no news.
func (s *search) note(path string, err error) {
	if err == nil {
		return
	}
	if r, ok := errors.AsType[*RefusedError](err); ok {
		s.refused = append(s.refused, r)
		return
	}
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	s.refused = append(s.refused, &RefusedError{Path: path, Reason: Unreadable, Why: permissions(path, err), Err: pathless(err)})
}

func (s *search) refuse(path string, r Reason, format string, args ...any) {
	s.refused = append(s.refused, &RefusedError{Path: path, Reason: r, Why: fmt.Sprintf(format, args...)})
}

// err is the error of a search without a result: all reasons, else that there
// is nothing. where names the Source.
func (s *search) err(where string) error {
	if len(s.refused) > 0 {
		return errors.Join(s.refused...)
	}
	return &notFoundError{where, s.key}
}

// A notFoundError says that a Source has nothing for a key.
type notFoundError struct {
	where string
	key   Key
}

func (e *notFoundError) Error() string { return fmt.Sprintf("%s: no %v", e.where, e.key) }

func (e *notFoundError) Unwrap() error { return fs.ErrNotExist }

// permissions says who may read a file, if err is that we may not.
func permissions(path string, err error) string {
	if !errors.Is(err, fs.ErrPermission) {
		return ""
	}
	fi, serr := os.Lstat(path)
	uid, ok := -1, false
	if serr == nil {
		uid, ok = owner(fi)
	}
	if !ok {
		return ""
	}
	return fmt.Sprintf("owned by user %d, mode %#o", uid, fi.Mode().Perm())
}

// pathless strips the operation and name that os adds: the caller names the
// file better.
func pathless(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
