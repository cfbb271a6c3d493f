// Package ordered runs a function over a sequence of items on several
// goroutines and writes the results in the order of the items. The number of
// items held at a time is bounded, and the bytes written do not depend on the
// number of goroutines.
package ordered

import (
	"errors"
	"io"
	"sync"

	"github.com/perfark/perfark/internal/crew"
)

type job[T any] struct {
	item T
	out  []byte
	done chan struct{}
}

// A Writer turns items into bytes.
type Writer[T any] struct {
	// Wrote, if set before the first Put, is called after the result of item
	// was written, with its size in bytes; from one goroutine, in order.
	Wrote func(item T, n int)

	w     io.Writer
	todo  chan *job[T]
	order chan *job[T]
	free  chan []byte
	wg    sync.WaitGroup
	end   chan struct{}

	mu   sync.Mutex
	err  error
	died *crew.Panic
}

// NewWriter starts workers goroutines. Each calls start once and then, for
// its items, the function that this returned; that appends its result to dst,
// which is empty. At most depth items are held that are not yet written. The
// goroutines end with Close.
func NewWriter[T any](w io.Writer, workers, depth int, start func() func(dst []byte, item T) ([]byte, error)) *Writer[T] {
	workers = max(workers, 1)
	depth = max(depth, workers)
	o := &Writer[T]{
		w:     w,
		todo:  make(chan *job[T], depth),
		order: make(chan *job[T], depth-1),
		free:  make(chan []byte, depth),
		end:   make(chan struct{}),
	}
	for range workers {
		o.wg.Go(func() {
			work := start()
			for j := range o.todo {
				var dst []byte
				select {
				case dst = <-o.free:
				default:
				}
				o.do(j, work, dst[:0])
			}
		})
	}
	go o.write()
	return o
}

// errDied is why no more is done when a piece of work has panicked.
var errDied = errors.New("a panic")

// do does a piece of work, unless there was an error. Close panics if it does.
func (o *Writer[T]) do(j *job[T], work func(dst []byte, item T) ([]byte, error), dst []byte) {
	defer close(j.done)
	defer func() {
		if v := recover(); v != nil {
			o.fail(errDied)
			o.mu.Lock()
			defer o.mu.Unlock()
			if o.died == nil {
				o.died = crew.Recovered(v)
			}
		}
	}()
	if o.Err() != nil {
		return
	}
	var err error
	if j.out, err = work(dst, j.item); err != nil {
		o.fail(err)
	}
}

func (o *Writer[T]) write() {
	defer close(o.end)
	for j := range o.order {
		<-j.done
		if o.Err() == nil {
			if _, err := o.w.Write(j.out); err != nil {
				o.fail(err)
			}
		}
		if o.Wrote != nil {
			o.Wrote(j.item, len(j.out))
		}
		select {
		case o.free <- j.out:
		default:
		}
	}
}

func (o *Writer[T]) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}

// Err returns the first error.
func (o *Writer[T]) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Put adds an item and waits while too many are held. It returns the first
// error so far, of a function or of writing.
func (o *Writer[T]) Put(item T) error {
	if err := o.Err(); err != nil {
		return err
	}
	j := &job[T]{item: item, done: make(chan struct{})}
	o.order <- j
	o.todo <- j
	return nil
}

// Close waits until everything is written and returns the first error. It
// must be called once, also after an error. It panics with a *crew.Panic if a
// function did.
func (o *Writer[T]) Close() error {
	close(o.todo)
	close(o.order)
	o.wg.Wait()
	<-o.end
	if o.died != nil {
		panic(o.died)
	}
	return o.Err()
}
