package perfdata

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/klauspost/compress/zstd"
	"github.com/mikelolasagasti/xz"

	"github.com/perfark/perfark/internal/decode"
)

// Decompressors take memory for a window whose size the input names. This is
// what they may, unless Limits.Bytes says otherwise: the windows of zstd
// --long=27 and of xz -9.
const maxWindow = 128 << 20

// window returns how large a decompressor's window may be, in bytes.
func (f *File) window() uint64 {
	if n := f.opt.Limits.Bytes; n > 0 {
		return uint64(min(max(n, 1<<10), 1<<31))
	}
	return maxWindow
}

func (f *File) windowError(what string) error {
	return &decode.LimitError{What: what + ": window", Limit: int64(f.window()), Want: int64(f.window()) + 1, Option: "--max-input-bytes"}
}

// Compressed data may be this much larger than what it was made of, if
// Limits.Bytes does not say otherwise: recordings reach a factor of 20, bombs
// a thousand.
const (
	inflateRatio = 100
	inflateFree  = 64 << 20
)

// Open opens a recording: a file, a directory (perf record --threads), or
// something that can be read once, such as a FIFO. The file may be compressed
// as a whole with gzip, xz or zstd. The error names the file; it wraps
// ErrNotPerfData if the file is something else, fs.ErrNotExist and
// fs.ErrPermission where they apply, and a *decode.LimitError if the file
// wants more than its limits.
func Open(name string, o Options) (*File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, explain(name, err)
	}
	st, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	if o.ModTime.IsZero() {
		o.ModTime = st.ModTime()
	}
	var f *File
	switch mode := st.Mode(); {
	case mode.IsDir():
		file.Close()
		return openDir(name, o)
	case mode.IsRegular():
		f, err = New(file, st.Size(), name, o)
	case mode&(fs.ModeNamedPipe|fs.ModeCharDevice|fs.ModeSocket) != 0:
		f, err = NewStream(file, name, o)
		file.Close()
		return f, err
	default:
		err = fmt.Errorf("%s: %w: %s", name, ErrNotPerfData, mode.Type())
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	f.closers = append(f.closers, file)
	return f, nil
}

// explain adds to the error of a file that may not be read whose it is.
func explain(name string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	st, serr := os.Stat(name)
	if serr != nil {
		return err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return fmt.Errorf("%w: it belongs to uid %d with mode %04o; read it as that user or root, or chmod +r it", err, sys.Uid, st.Mode().Perm())
	}
	return err
}

// New reads a recording of size bytes from r, which must stay open as long as
// the File is in use. The name is for messages. Errors are those of Open.
func New(r io.ReaderAt, size int64, name string, o Options) (*File, error) {
	f := &File{name: name, opt: o, budget: o.Budget, r: r, size: size}
	if f.budget == nil {
		f.budget = decode.NewBudget(o.Limits)
	}
	f.hdr.ModTime = o.ModTime
	if err := f.open(); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

func (f *File) open() error {
	if f.size == 0 {
		return fmt.Errorf("%w: zero-sized", ErrNotPerfData)
	}
	head := make([]byte, min(512, f.size))
	if n, err := f.r.ReadAt(head, 0); err != nil && !(errors.Is(err, io.EOF) && n == len(head)) {
		return err
	}
	if kind := wrapper(head); kind != "" {
		if err := f.unwrap(kind, io.NewSectionReader(f.r, 0, f.size)); err != nil {
			return err
		}
	} else if !isPerfData(head) {
		return fmt.Errorf("%w: %s", ErrNotPerfData, whatIs(head))
	}
	return f.readHeader()
}

// NewStream reads a recording from r, to its end, into an unlinked temporary
// file: a recording is read more than once. Errors are those of Open.
func NewStream(r io.Reader, name string, o Options) (*File, error) {
	head := make([]byte, 512)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	head = head[:n]
	kind := wrapper(head)
	if n > 0 && kind == "" && !isPerfData(head) {
		// Before all of it is copied to disk.
		return nil, fmt.Errorf("%s: %w: %s", name, ErrNotPerfData, whatIs(head))
	}
	tmp, err := tempFile(o.Temp)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	size, err := io.Copy(tmp, io.MultiReader(bytes.NewReader(head), r))
	if err == nil {
		var f *File
		if f, err = New(tmp, size, name, o); err == nil {
			f.closers = append(f.closers, tmp)
			return f, nil
		}
		tmp.Close()
		return nil, err
	}
	tmp.Close()
	return nil, fmt.Errorf("%s: %w", name, err)
}

// tempFile makes a file without a name.
func tempFile(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "perfark-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// wrapper returns the kind of compression that b begins with; "" if none.
func wrapper(b []byte) string {
	switch {
	case bytes.HasPrefix(b, []byte{0x1f, 0x8b, 8}):
		return "gzip"
	case bytes.HasPrefix(b, []byte("\xfd7zXZ\x00")):
		return "xz"
	case bytes.HasPrefix(b, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "zstd"
	}
	return ""
}

// unwrap decompresses a whole file into a temporary one, and makes f read
// that. What comes before a defect is kept.
func (f *File) unwrap(kind string, src io.Reader) error {
	in := &countReader{r: src}
	var r io.Reader
	var err error
	switch kind {
	case "gzip":
		r, err = gzip.NewReader(in)
	case "xz":
		r, err = xz.NewReader(in, uint32(f.window()))
	case "zstd":
		var z *zstd.Decoder
		z, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(f.window()), zstd.WithDecoderLowmem(true))
		if err == nil {
			defer z.Close()
			r = z
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", kind, err)
	}
	head := make([]byte, 512)
	n, err := readHead(r, head)
	head = head[:n]
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, xz.ErrMemlimit) {
		return f.windowError(kind)
	}
	if n == 0 && err != nil && err != io.EOF {
		return fmt.Errorf("%s: %w", kind, err)
	}
	if !isPerfData(head) {
		what := whatIs(head)
		if inner := wrapper(head); inner != "" {
			what = "a " + inner + " file"
		}
		return fmt.Errorf("%w: %s, compressed with %s", ErrNotPerfData, what, kind)
	}
	tmp, terr := tempFile(f.opt.Temp)
	if terr != nil {
		return terr
	}
	f.closers = append(f.closers, tmp)
	size := int64(n)
	if _, werr := tmp.Write(head); werr != nil {
		return werr
	}
	buf := make([]byte, 256<<10)
	for err == nil {
		n, err = r.Read(buf)
		if n == 0 {
			continue
		}
		size += int64(n)
		if lerr := f.inflated(in.n, size, kind); lerr != nil {
			return lerr
		}
		if _, werr := tmp.Write(buf[:n]); werr != nil {
			return werr
		}
	}
	if err != io.EOF {
		f.AddDamage(Damage{Name: f.name, Offset: in.n, What: fmt.Sprintf("%s: %v, after %d bytes decompressed", kind, err, size)})
	}
	f.hdr.Wrapped = kind
	f.r, f.size = tmp, size
	return nil
}

// readHead fills b as far as r goes. The error is that of r, if it came to one.
func readHead(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var m int
		m, err = r.Read(b[n:])
		n += m
	}
	return n, err
}

// inflated checks how much in bytes of compressed data became. The limit is
// Limits.Bytes if that is set, or else what recordings can reach.
func (f *File) inflated(in, out int64, what string) error {
	limit := inflateFree + inflateRatio*in
	if f.opt.Limits.Bytes > 0 {
		limit = f.opt.Limits.Bytes
	}
	if out <= limit {
		return nil
	}
	return &decode.LimitError{What: what, Limit: limit, Want: out, Option: "--max-input-bytes"}
}

type countReader struct {
	r io.Reader
	n int64
}

func (c *countReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// whatIs says what a file that begins with b seems to be.
func whatIs(b []byte) string {
	has := func(s string) bool { return bytes.HasPrefix(b, []byte(s)) }
	switch {
	case len(b) == 0:
		return "zero-sized"
	case has("\x7fELF"):
		return "an ELF file"
	case len(b) > 262 && string(b[257:262]) == "ustar":
		return "a tar archive"
	case has("\x1f\x8b"):
		return "a gzip file"
	case has("BZh"):
		return "a bzip2 file"
	case has("\xfd7zXZ\x00"):
		return "an xz file"
	case has("\x28\xb5\x2f\xfd"), has("\x5e\x2a\x4d\x18"), has("\x50\x2a\x4d\x18"):
		return "a zstd file"
	case has("PK\x03\x04"):
		return "a zip archive"
	case has("SIMPLEPERF"):
		return "a report-sample file of simpleperf"
	case len(b) < 8 && bytes.HasPrefix([]byte(magicLE), b), len(b) < 8 && bytes.HasPrefix([]byte(magicOld), b):
		return fmt.Sprintf("cut off after %d bytes", len(b))
	}
	zeros, text := true, true
	for _, c := range b {
		zeros = zeros && c == 0
		text = text && (c >= ' ' || c == '\n' || c == '\t' || c == '\r')
	}
	switch {
	case zeros:
		return "it begins with zeros"
	case text && (b[0] == '{' || b[0] == '['):
		return "JSON"
	case text:
		return "text"
	}
	return fmt.Sprintf("it begins with %q", b[:min(8, len(b))])
}

// openDir opens a directory: the file data, and the streams data.N that perf
// record --threads writes, in the order of N.
func openDir(name string, o Options) (*File, error) {
	main, err := openRegular(filepath.Join(name, "data"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w: a directory without a file %q", name, ErrNotPerfData, "data")
	}
	if err != nil {
		return nil, explain(filepath.Join(name, "data"), err)
	}
	st, err := main.Stat()
	if err != nil {
		main.Close()
		return nil, err
	}
	o.ModTime = st.ModTime()
	f, err := New(main, st.Size(), filepath.Join(name, "data"), o)
	if err != nil {
		main.Close()
		return nil, err
	}
	f.closers = append(f.closers, main)
	f.name = name
	f.hdr.Dir = true
	if err := f.addStreams(name); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// addStreams opens the data.N of a directory. Gaps in N are damage.
func (f *File) addStreams(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	type numbered struct {
		n    int
		name string
	}
	var list []numbered
	for _, e := range entries {
		if s, ok := strings.CutPrefix(e.Name(), "data."); ok {
			if n, err := strconv.Atoi(s); err == nil && n >= 0 && strconv.Itoa(n) == s {
				list = append(list, numbered{n, filepath.Join(dir, e.Name())})
			}
		}
		if e.IsDir() && strings.HasPrefix(e.Name(), "kcore_dir") {
			f.kcore = append(f.kcore, filepath.Join(dir, e.Name()))
		}
	}
	slices.SortFunc(list, func(a, b numbered) int { return a.n - b.n })
	next := 0 // perf record makes all of them, from 0 up
	for _, x := range list {
		if x.n > next {
			f.AddDamage(Damage{Name: filepath.Join(dir, fmt.Sprintf("data.%d", next)), What: fmt.Sprintf("is not there, but data.%d is", x.n)})
		}
		next = x.n + 1
		file, err := openRegular(x.name)
		if err != nil {
			f.AddDamage(Damage{Name: x.name, What: err.Error()})
			continue
		}
		f.closers = append(f.closers, file)
		st, err := file.Stat()
		if err != nil {
			return err
		}
		f.streams = append(f.streams, stream{name: x.name, r: file, end: st.Size(), killed: f.hdr.Killed})
	}
	return nil
}

// openRegular opens a regular file of a directory, and nothing that only has
// its name: no link, no FIFO, no device.
func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%s: is a symbolic link, not a regular file", name)
	}
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s: is not a regular file: %s", name, st.Mode().Type())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// OneStream reports whether all records of the recording are in one file: of a
// directory, in its data.
func (f *File) OneStream() bool { return !f.hdr.Dir || len(f.streams) <= 1 }

// KcoreDirs returns the kcore_dir* of a directory: copies of /proc/kcore,
// kallsyms and modules that perf record --kcore made.
func (f *File) KcoreDirs() []string { return f.kcore }
