package archive

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// Limits of a seek table from outside.
const (
	maxSeekFrame  = 64 << 20 // bytes of one frame when decompressed
	maxSeekFrames = 1 << 22
)

// errNoTable says that a zstd file has no seek table.
var errNoTable = errors.New("no seek table")

// A seekFrame is one frame of a seekable file.
type seekFrame struct {
	in, out         int64 // offsets: in the file, in the contents
	inSize, outSize int
}

// readSeekTable reads the seek table at the end of a zstd file of size bytes,
// and returns its frames and the size of the contents. The error is errNoTable
// if there is none.
//
// Source: contrib/seekable_format/zstd_seekable_compression_format.md in the
// zstd sources.
func readSeekTable(r io.ReaderAt, size int64) ([]seekFrame, int64, error) {
	var foot [9]byte
	if size < 17 {
		return nil, 0, errNoTable
	}
	if err := readFull(r, foot[:], size-9); err != nil {
		return nil, 0, err
	}
	if binary.LittleEndian.Uint32(foot[5:]) != seekableMagic {
		return nil, 0, errNoTable
	}
	n := int64(binary.LittleEndian.Uint32(foot[:]))
	entry := int64(8)
	if foot[4]&0x80 != 0 {
		entry = 12 // with checksums
	}
	if foot[4]&0x7c != 0 {
		return nil, 0, fmt.Errorf("seek table: reserved bits %#x are set", foot[4])
	}
	body := n*entry + 9
	if n > maxSeekFrames || body+8 > size {
		return nil, 0, fmt.Errorf("seek table: %d frames in a file of %d bytes", n, size)
	}
	b := make([]byte, body+8)
	if err := readFull(r, b, size-int64(len(b))); err != nil {
		return nil, 0, err
	}
	if m := binary.LittleEndian.Uint32(b); m != skippableMagic {
		return nil, 0, fmt.Errorf("seek table: begins with %#x, want %#x", m, uint32(skippableMagic))
	}
	if s := int64(binary.LittleEndian.Uint32(b[4:])); s != body {
		return nil, 0, fmt.Errorf("seek table: frame of %d bytes, want %d", s, body)
	}
	frames := make([]seekFrame, 0, n)
	var in, out int64
	for b := b[8 : 8+n*entry]; len(b) > 0; b = b[entry:] {
		f := seekFrame{in, out, int(binary.LittleEndian.Uint32(b)), int(binary.LittleEndian.Uint32(b[4:]))}
		if f.outSize > maxSeekFrame {
			return nil, 0, fmt.Errorf("seek table: frame %d has %d bytes, at most %d are allowed", len(frames), f.outSize, maxSeekFrame)
		}
		in += int64(f.inSize)
		out += int64(f.outSize)
		frames = append(frames, f)
	}
	if want := size - int64(len(b)); in != want {
		return nil, 0, fmt.Errorf("seek table: frames of %d bytes in all, but %d bytes precede it", in, want)
	}
	return frames, out, nil
}

// A seekable reads a zstd file with a seek table at any offset. It keeps some
// frames that were read last.
type seekable struct {
	r      io.ReaderAt
	frames []seekFrame
	size   int64 // of the contents, in bytes
	dec    *zstd.Decoder

	mu   sync.Mutex
	kept []*keptFrame // most recent last
	max  int
}

type keptFrame struct {
	n    int
	once sync.Once
	b    []byte
	err  error
}

// What a seekable keeps: so many bytes, but one frame for every reader of
// Unpack and one more.
const (
	keptBytes  = 32 << 20
	keptFrames = unpackers + 1
)

func newSeekable(r io.ReaderAt, size int64, workers int) (*seekable, error) {
	frames, out, err := readSeekTable(r, size)
	if err != nil {
		return nil, err
	}
	biggest := 1
	for _, f := range frames {
		biggest = max(biggest, f.outSize)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(workers), zstd.WithDecoderMaxMemory(uint64(max(biggest, 1<<20))),
		zstd.WithDecoderMaxWindow(maxSeekFrame), zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, err
	}
	return &seekable{r: r, frames: frames, size: out, dec: dec, max: max(keptBytes/biggest, keptFrames)}, nil
}

// Close frees the decoder.
func (s *seekable) Close() error {
	s.dec.Close()
	return nil
}

// ReadAt reads contents at an offset in them.
func (s *seekable) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fmt.Errorf("offset %d is negative", off)
	}
	i := sort.Search(len(s.frames), func(i int) bool { f := &s.frames[i]; return f.out+int64(f.outSize) > off })
	for ; n < len(p); i++ {
		if i == len(s.frames) {
			return n, io.EOF
		}
		f := &s.frames[i]
		if f.outSize == 0 {
			continue
		}
		if int64(n)+off == f.out && len(p)-n >= f.outSize {
			// The whole frame is wanted: no need to keep it.
			if _, err := s.decode(i, p[n:n:n+f.outSize]); err != nil {
				return n, err
			}
			n += f.outSize
			continue
		}
		b, err := s.frame(i)
		if err != nil {
			return n, err
		}
		n += copy(p[n:], b[off+int64(n)-f.out:])
	}
	return n, nil
}

// frame returns the contents of a frame, which must not be changed.
func (s *seekable) frame(i int) ([]byte, error) {
	s.mu.Lock()
	var k *keptFrame
	for j, x := range s.kept {
		if x.n == i {
			k = x
			s.kept = append(append(s.kept[:j:j], s.kept[j+1:]...), x)
			break
		}
	}
	if k == nil {
		k = &keptFrame{n: i}
		if len(s.kept) >= s.max {
			s.kept = append([]*keptFrame(nil), s.kept[1:]...)
		}
		s.kept = append(s.kept, k)
	}
	s.mu.Unlock()
	k.once.Do(func() { k.b, k.err = s.decode(i, make([]byte, 0, s.frames[i].outSize)) })
	return k.b, k.err
}

// decode appends the contents of a frame to dst, which has room for them.
func (s *seekable) decode(i int, dst []byte) ([]byte, error) {
	f := &s.frames[i]
	in := make([]byte, f.inSize)
	if err := readFull(s.r, in, f.in); err != nil {
		return nil, fmt.Errorf("zstd frame at %#x: %w", f.in, err)
	}
	out, err := s.dec.DecodeAll(in, dst)
	if err != nil {
		return nil, fmt.Errorf("zstd frame at %#x: %w", f.in, err)
	}
	if len(out) != f.outSize {
		return nil, fmt.Errorf("zstd frame at %#x: %d bytes, but the seek table says %d", f.in, len(out), f.outSize)
	}
	if cap(dst) >= f.outSize && f.outSize > 0 && &out[0] != &dst[:1][0] {
		copy(dst[:f.outSize], out)
		out = dst[:f.outSize]
	}
	return out, nil
}
