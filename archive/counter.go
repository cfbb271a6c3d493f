package archive

import (
	"io"
	"sync/atomic"
)

// A counter counts the bytes read from r. The count may be read by another
// goroutine.
type counter struct {
	r io.Reader
	n atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}
