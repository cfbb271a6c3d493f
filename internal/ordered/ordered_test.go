package ordered

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perfark/perfark/internal/crew"
)

// TestOrder: the results stand in the order of the items, for any number of
// goroutines, and no more items are held than asked for.
func TestOrder(t *testing.T) {
	var want bytes.Buffer
	for i := range 500 {
		fmt.Fprintf(&want, "%d\n", i)
	}
	for _, workers := range []int{1, 2, 7} {
		const depth = 9
		var got bytes.Buffer
		var held, starts atomic.Int32
		var sizes int
		w := NewWriter(&got, workers, depth, func() func(dst []byte, item int) ([]byte, error) {
			starts.Add(1)
			return func(dst []byte, item int) ([]byte, error) {
				if len(dst) != 0 {
					t.Errorf("dst holds %q", dst)
				}
				time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
				return fmt.Appendf(dst, "%d\n", item), nil
			}
		})
		w.Wrote = func(_ int, n int) {
			sizes += n
			held.Add(-1)
		}
		for i := range 500 {
			if n := held.Add(1); n > depth+2 { // one is being put, one was written just now
				t.Errorf("%d items are held", n)
			}
			if err := w.Put(i); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) || sizes != want.Len() {
			t.Errorf("%d workers: %d bytes, want %d", workers, got.Len(), want.Len())
		}
		if n := starts.Load(); int(n) != workers {
			t.Errorf("%d starts, want %d", n, workers)
		}
	}
}

// TestError: nothing after a failed item is written, and Put says why.
func TestError(t *testing.T) {
	bad := errors.New("bad item")
	var got bytes.Buffer
	w := NewWriter(&got, 3, 5, func() func(dst []byte, item int) ([]byte, error) {
		return func(dst []byte, item int) ([]byte, error) {
			if item == 10 {
				return nil, bad
			}
			return append(dst, byte(item)), nil
		}
	})
	var err error
	for i := 0; err == nil && i < 10_000; i++ {
		err = w.Put(i)
	}
	if err != bad {
		t.Errorf("Put: error %v, want %v", err, bad)
	}
	if err := w.Close(); err != bad {
		t.Errorf("Close: error %v, want %v", err, bad)
	}
	if want := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !bytes.HasPrefix(want, got.Bytes()) {
		t.Errorf("written: %v", got.Bytes())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestWriteError(t *testing.T) {
	w := NewWriter(full{}, 2, 2, func() func(dst []byte, item int) ([]byte, error) {
		return func(dst []byte, item int) ([]byte, error) { return append(dst, 1), nil }
	})
	var err error
	for i := 0; err == nil && i < 10_000; i++ {
		err = w.Put(i)
	}
	if e := w.Close(); err == nil || e == nil || e.Error() != "full" {
		t.Errorf("Put: error %v; Close: error %v; want full", err, e)
	}
}

func five() { panic("five") }

// inside does it in a goroutine of a piece of work.
func inside() {
	var in crew.Group
	in.Go(five)
	in.Wait()
}

// A panic comes out of Close with the stack of where it was, and nothing waits
// for it.
func TestPanic(t *testing.T) {
	for workers, fail := range map[int]func(){1: five, 4: five, 2: inside} {
		w := NewWriter(io.Discard, workers, 8, func() func([]byte, int) ([]byte, error) {
			return func(dst []byte, i int) ([]byte, error) {
				if i == 5 {
					fail()
				}
				return dst, nil
			}
		})
		for i := range 100 {
			if w.Put(i) != nil {
				break
			}
		}
		func() {
			defer func() {
				if p, ok := recover().(*crew.Panic); !ok || p.String() != "five" || !bytes.Contains(p.Stack, []byte("ordered.five(")) {
					t.Errorf("%d workers: %v", workers, p)
				}
			}()
			w.Close()
		}()
	}
}
