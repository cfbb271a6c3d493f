package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/store"
)

// An input is an open recording: a perf.data, or the one in a bundle.
type input struct {
	*perfdata.File
	bundle  *archive.Archive // that the recording is in; nil if it is in none
	uid     int              // owner of the file, -1 if unknown
	hidden  *hidden          // of a redacted recording: where it comes from; else nil
	closers []io.Closer
}

// Close closes the recording and the bundle.
func (in *input) Close() error {
	var errs []error
	if in.File != nil {
		errs = append(errs, in.File.Close())
	}
	for _, c := range in.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// recorded returns the recording as it was made: what it says of its host is
// true there alone.
func (in *input) recorded() *perfdata.File {
	if in.hidden != nil {
		return in.hidden.original.File
	}
	return in.File
}

// sources returns src behind the objects of the bundle the recording is in,
// and behind what perf record --kcore put beside it.
func (in *input) sources(src store.Source) store.Source {
	if in.hidden != nil {
		return in.hidden.sourceOf(src)
	}
	var list []store.Source
	if in.bundle != nil {
		list = append(list, in.bundle)
	}
	if dirs := in.KcoreDirs(); len(dirs) > 0 {
		list = append(list, store.KcoreDirs(dirs))
	}
	if len(list) == 0 {
		return src
	}
	return store.Multi(append(list, src)...)
}

// openInput opens the recording in name: a perf.data of any kind, a bundle, or
// standard input if name is "-".
func (a *app) openInput(ctx context.Context, name string) (*input, error) {
	o := perfdata.Options{Limits: a.limits}
	pipe, err := a.openPipe(ctx, name)
	if err != nil {
		return nil, a.openError(name, err)
	}
	if pipe || name == "-" {
		return a.openStdin(ctx, o)
	}
	f, err := perfdata.Open(name, o)
	if err == nil {
		return &input{File: f, uid: ownerOf(name)}, nil
	}
	if !errors.Is(err, perfdata.ErrNotPerfData) {
		return nil, a.openError(name, err)
	}
	if fi, serr := os.Stat(name); serr == nil && fi.IsDir() {
		return nil, err
	}
	arc, aerr := archive.Open(ctx, name, a.archiveOptions())
	if aerr != nil {
		return nil, notRecording(ctx, name, err, aerr)
	}
	return a.openBundle(arc, name)
}

// openPipe makes a FIFO standard input, as it can be read once only: it may hold
// a recording or an archive. It reports whether name is one.
func (a *app) openPipe(ctx context.Context, name string) (bool, error) {
	fi, err := os.Stat(name)
	if err != nil || fi.Mode()&fs.ModeNamedPipe == 0 {
		return false, nil // others say what is wrong with it
	}
	type result struct {
		f   *os.File
		err error
	}
	opened := make(chan result, 1)
	go func() { // waits for who writes to it
		f, err := os.Open(name)
		opened <- result{f, err}
	}()
	select {
	case r := <-opened:
		if r.err == nil {
			a.stdin = r.f
		}
		return true, r.err
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// openStdin opens what comes on standard input. It is read twice, so it goes
// into an unlinked file first if it is none.
func (a *app) openStdin(ctx context.Context, o perfdata.Options) (*input, error) {
	const name = "standard input"
	spool, size, closers, err := a.spool(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	in := &input{uid: -1, closers: closers}
	if size == 0 {
		in.Close()
		return nil, fmt.Errorf("%s: is empty", name)
	}
	in.File, err = perfdata.New(spool, size, name, o)
	if err == nil {
		return in, nil
	}
	if !errors.Is(err, perfdata.ErrNotPerfData) {
		in.Close()
		return nil, err
	}
	arc, aerr := archive.New(ctx, spool, size, name, a.archiveOptions())
	if aerr != nil {
		in.Close()
		return nil, notRecording(ctx, name, err, aerr)
	}
	bundle, err := a.openBundle(arc, name)
	if err != nil {
		in.Close()
		return nil, err
	}
	bundle.closers = append(bundle.closers, closers...)
	return bundle, nil
}

// spool returns standard input as something to read at: itself if it is a
// regular file at its beginning, else a copy that has no name.
func (a *app) spool(ctx context.Context) (io.ReaderAt, int64, []io.Closer, error) {
	if f, ok := a.stdin.(*os.File); ok {
		st, err := f.Stat()
		if err == nil && st.Mode().IsRegular() {
			if at, err := f.Seek(0, io.SeekCurrent); err == nil && at == 0 {
				return f, st.Size(), nil, nil
			}
		}
	}
	tmp, err := os.CreateTemp("", "perfark-stdin-*")
	if err != nil {
		return nil, 0, nil, err
	}
	os.Remove(tmp.Name())
	n, err := copyContext(ctx, tmp, a.stdin)
	if err != nil {
		tmp.Close()
		return nil, 0, nil, err
	}
	return tmp, n, []io.Closer{tmp}, nil
}

// seekable returns a path at which the file of that name can be read more than
// once: itself, or for - and what comes through a pipe that of a copy, which has
// no name and is gone when the file is closed. file is nil if there is none.
func (a *app) seekable(ctx context.Context, name string) (path string, file io.Closer, err error) {
	src := a.stdin
	if name != "-" {
		fi, err := os.Stat(name)
		if err != nil || fi.Mode()&(fs.ModeNamedPipe|fs.ModeCharDevice|fs.ModeSocket) == 0 {
			return name, nil, nil // others say what is wrong with it
		}
		f, err := os.Open(name)
		if err != nil {
			return "", nil, err
		}
		defer f.Close()
		src = f
	}
	tmp, err := os.CreateTemp("", "perfark-pipe-*")
	if err != nil {
		return "", nil, err
	}
	os.Remove(tmp.Name())
	if _, err := copyContext(ctx, tmp, src); err != nil {
		tmp.Close()
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d", tmp.Fd()), tmp, nil
}

// copyContext copies r to w until the end, or until ctx is done: a read from a
// terminal or a pipe may never return.
func copyContext(ctx context.Context, w io.Writer, r io.Reader) (int64, error) {
	type result struct {
		n   int64
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := io.Copy(w, r)
		done <- result{n, err}
	}()
	select {
	case res := <-done:
		return res.n, res.err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// openBundle opens the recording in an archive, and closes the archive if
// there is none.
func (a *app) openBundle(arc *archive.Archive, name string) (*input, error) {
	in := &input{bundle: arc, uid: ownerOf(name), closers: []io.Closer{arc}}
	r, size, ok := arc.Data()
	if !ok {
		in.Close()
		return nil, hintf(fmt.Errorf("%s: holds objects, but no recording", name), "perfark report -i perf.data --symbols %s", name)
	}
	a.noteAbsent(arc, name)
	f, err := perfdata.New(r, size, name, perfdata.Options{Limits: a.limits, ModTime: dataTime(arc)})
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("%s: perf.data: %w", name, err)
	}
	in.File = f
	return in, nil
}

// noteAbsent says which objects of an archive are neither in it nor in the pool
// that it names, once.
func (a *app) noteAbsent(arc *archive.Archive, name string) {
	const most = 20
	list := arc.Absent()
	if len(list) == 0 || slices.Contains(a.absent, name) {
		return
	}
	a.absent = append(a.absent, name)
	where := fmt.Sprintf("the directory %q beside it", arc.Manifest().Pool)
	if dir := arc.PoolDir(); dir != "" {
		where = dir
	}
	for i, o := range list {
		if i == most && a.verbose == 0 {
			a.notef("absent: and %s more (-v lists them)", count(len(list)-most, "object"))
			break
		}
		id := o.ID.String()
		if id == "" {
			id = "no build id"
		}
		a.notef("absent: %s %s: %s: not in %s", id, o.Paths[0], count(o.Samples, "sample"), where)
	}
	a.adviseOnce("perfark bundle export " + shellQuote(filepath.Base(name)) + ", in the directory it was captured to, makes it whole")
}

// dataTime returns when the recording in an archive was made; zero if the
// archive does not say.
func dataTime(arc *archive.Archive) time.Time {
	if m := arc.Manifest(); m != nil && m.Data != nil {
		return m.Data.MTime
	}
	return time.Time{}
}

// archiveOptions returns the options to open an archive with.
func (a *app) archiveOptions() archive.OpenOptions {
	return archive.OpenOptions{Limits: a.archives}
}

// notRecording says that a file is neither a recording nor an archive.
func notRecording(ctx context.Context, name string, err, aerr error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(aerr, archive.ErrNotArchive) {
		return err
	}
	return aerr
}

// openError says why a file cannot be opened, in a way that helps.
func (a *app) openError(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s: no such file", name)
		if a.input == "" && name == "perf.data" {
			return hintf(err, "name one with -i, or make one with perf record")
		}
		return err
	}
	return err
}

// ownerOf returns the user id of the owner of a file, -1 if it is not known.
func ownerOf(name string) int {
	fi, err := os.Stat(name)
	if err != nil {
		return -1
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid)
	}
	return -1
}
