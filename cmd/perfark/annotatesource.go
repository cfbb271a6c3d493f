package main

import (
	"cmp"
	"context"
	"crypto/md5"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/store"
)

// sourceFlags say where source files are.
type sourceFlags struct {
	sourceDirs  []string
	prefixMaps  []string
	prefix      string
	prefixStrip int
}

func (c *sourceFlags) addSourceFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&c.sourceDirs, "source-dir", nil, "look for source files in `DIR` first, by the ends of their paths; may be repeated")
	fs.StringArrayVar(&c.prefixMaps, "prefix-map", nil, "look for source files below OLD below NEW, given as `OLD=NEW`; may be repeated")
	fs.StringVar(&c.prefix, "prefix", "", "put `DIR` in front of the paths of source files")
	fs.IntVar(&c.prefixStrip, "prefix-strip", 0, "leave out the first `N` directories of these paths; with --prefix")
}

// What is read of source files: bytes of one, of a line, and of all of them,
// with what their lines take in memory.
const (
	maxSource     = 16 << 20
	maxSourceLine = 4 << 10
	maxSources    = 512 << 20
)

// A sourceFinder reads source files.
type sourceFinder struct {
	sourceFlags
	maps   [][2]string
	made   time.Time                  // the recording: what is younger was not compiled into it; zero: unknown
	packed func(file string) []string // of a bundle; nil if there is none
	files  map[string][]string
	size   int // of files
	mu     sync.Mutex
	sums   map[string][16]byte // MD5 of files, as debug information has it
	bpf    map[string][]string // lines of files of BPF programs, as far as the recording has them
	note   func(format string, args ...any)
	said   bool
}

// sourceFiles returns what gives the lines of source files, as package annotate
// asks for them; nil if they were not asked for.
func (c *annotateCmd) sourceFiles(ctx context.Context, in *input) (func(file string) []string, error) {
	if c.prefixStrip != 0 && c.prefix == "" {
		return nil, usagef("--prefix-strip needs --prefix")
	}
	if c.prefixStrip < 0 {
		return nil, usagef("--prefix-strip %d: want 0 or more", c.prefixStrip)
	}
	f := &sourceFinder{sourceFlags: c.sourceFlags, files: map[string][]string{}, note: c.notef}
	for _, m := range c.prefixMaps {
		before, after, ok := strings.Cut(m, "=")
		if !ok || before == "" {
			return nil, usagef("--prefix-map %q: want OLD=NEW", m)
		}
		f.maps = append(f.maps, [2]string{before, after})
	}
	if !c.sources {
		return nil, nil
	}
	f.bpf = in.bpfTexts()
	switch fi, err := os.Stat(in.Name()); {
	case in.bundle != nil:
		if m := in.bundle.Manifest(); m != nil && m.Data != nil {
			f.made = m.Data.MTime
		}
		f.packed = func(file string) []string { return packedLines(ctx, in.bundle, file) }
	case err == nil:
		f.made = fi.ModTime()
	}
	c.finder = f
	return f.lines, nil
}

// lines returns the lines of a source file; nil if it is not to be had.
func (f *sourceFinder) lines(file string) []string {
	lines, ok := f.files[file]
	if !ok && f.size < maxSources {
		lines = f.read(file)
		f.files[file] = lines
		for _, s := range lines {
			f.size += len(s) + 16
		}
	}
	return lines
}

// splitLines is the lines of a source file, the beginnings of those that are
// longer than anybody reads.
func splitLines(text []byte) []string {
	lines := strings.Split(string(text), "\n")
	for i, s := range lines {
		if len(s) > maxSourceLine {
			lines[i] = s[:maxSourceLine] + "…"
		}
	}
	return lines
}

func (f *sourceFinder) read(file string) []string {
	f.mu.Lock()
	want, known := f.sums[file]
	f.mu.Unlock()
	for _, name := range f.given(file) {
		text, err := readSmall(name)
		switch {
		case err != nil:
		case known && md5.Sum(text) != want:
			f.note("%s: not used: it was changed: debug information has another checksum of %s", name, file)
		default:
			return splitLines(text)
		}
	}
	if f.prefix != "" && path.IsAbs(file) {
		return nil // as perf has it, files are nowhere else
	}
	if f.packed != nil {
		if lines := f.packed(file); lines != nil {
			return lines
		}
	}
	if texts := f.bpf[file]; texts != nil {
		if lines := readLines(file, time.Time{}); sameTexts(lines, texts) {
			return lines
		}
		return texts
	}
	if known {
		if text, err := readSmall(file); err == nil && md5.Sum(text) == want {
			return splitLines(text)
		}
	} else if archive.IsSource(file) { // a recording may name any file of this host
		if lines := readLines(file, f.made); lines != nil {
			return lines
		}
	}
	if !f.said {
		f.said = true
		f.note("%s: no source text: the file is not there, or was changed since; --source-dir and --prefix-map say where it is", file)
	}
	return nil
}

// given are the places of a source file that flags name.
func (f *sourceFinder) given(file string) []string {
	var out []string
	for _, m := range f.maps {
		if rest, ok := strings.CutPrefix(file, m[0]); ok && (rest == "" || rest[0] == '/' || strings.HasSuffix(m[0], "/")) {
			if name := m[1] + rest; filepath.IsLocal("./"+rest) || archive.IsSource(name) { // a recording may name any file of this host
				out = append(out, name)
			}
		}
	}
	if f.prefix != "" && path.IsAbs(file) {
		parts := strings.Split(strings.TrimPrefix(path.Clean(file), "/"), "/")
		out = append(out, filepath.Join(append([]string{f.prefix}, parts[min(f.prefixStrip, len(parts)-1):]...)...))
	}
	for _, dir := range f.sourceDirs {
		// The longest end of the path that is there, and in dir.
		parts := strings.Split(path.Clean("/" + file)[1:], "/")
		for i := range parts {
			out = append(out, filepath.Join(append([]string{dir}, parts[i:]...)...))
		}
	}
	return out
}

// packedLines reads a source file of a bundle; nil if it has none.
func packedLines(ctx context.Context, arc *archive.Archive, file string) []string {
	f, err := arc.Get(ctx, store.Key{Kind: store.SourceText, Path: path.Clean(file)})
	if err != nil {
		return nil
	}
	defer f.Close()
	if f.Size > maxSource {
		return nil
	}
	text := make([]byte, f.Size)
	if _, err := f.ReadAt(text, 0); err != nil && err != io.EOF {
		return nil
	}
	return splitLines(text)
}

// readLines reads a file, if it is not younger than made; nil if it cannot be
// read.
func readLines(name string, made time.Time) []string {
	fi, err := os.Stat(name)
	if err != nil || !made.IsZero() && fi.ModTime().Truncate(time.Second).After(made) {
		return nil
	}
	text, err := readSmall(name)
	if err != nil {
		return nil
	}
	return splitLines(text)
}

var errNotSource = errors.New("not a regular file, or too large")

// readSmall reads a regular file that is not too large for source code. Files
// of the kernel that say that they are empty, and may have no end, are not.
func readSmall(name string) ([]byte, error) {
	if fi, err := os.Stat(name); err != nil || !fi.Mode().IsRegular() {
		return nil, cmp.Or(err, errNotSource)
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a FIFO by now
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() || fi.Size() == 0 || fi.Size() > maxSource {
		return nil, cmp.Or(err, errNotSource)
	}
	return io.ReadAll(io.LimitReader(f, fi.Size()))
}

// sum notes the MD5 of a source file.
func (f *sourceFinder) sum(file string, md5 [16]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sums == nil {
		f.sums = map[string][16]byte{}
	}
	f.sums[file] = md5
}
