package archive

import (
	"errors"
	"io"
)

// ErrNoRoom is wrapped by the error of Plan.Pack if what it would write is more
// than PackOptions.Room.
var ErrNoRoom = errors.New("more than there is room for")

// What a file takes on a disk beside its contents, in bytes: the rest of its
// last block, and its part of a directory.
const (
	diskBlock = 4 << 10
	fileCost  = 2 * diskBlock
)

// A room bounds what is written. The zero value is unbounded.
type room struct {
	bounded bool
	left    int64 // bytes
}

// take takes n bytes.
func (r *room) take(n int64) error {
	if !r.bounded {
		return nil
	}
	if r.left -= n; r.left < 0 {
		return ErrNoRoom
	}
	return nil
}

// A roomWriter writes to w what there is room for.
type roomWriter struct {
	w    io.Writer
	room *room
}

func (w *roomWriter) Write(p []byte) (int, error) {
	if err := w.room.take(int64(len(p))); err != nil {
		return 0, err
	}
	return w.w.Write(p)
}
