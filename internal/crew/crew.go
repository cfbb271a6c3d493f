// Package crew runs goroutines that are waited for. A panic in one of them
// comes out where they are waited for, so that whoever recovers there has all
// of them.
package crew

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// A Group is a sync.WaitGroup whose Wait panics if one of its functions did.
// The zero value is empty.
type Group struct {
	wg   sync.WaitGroup
	once sync.Once
	died *Panic
}

// A Panic is what a function of a group died of.
type Panic struct {
	Value any
	Stack []byte // of its goroutine
}

// Recovered returns what recover did, which is not nil, with the stack of this
// goroutine. It may be a *Panic already, of a group inside.
func Recovered(v any) *Panic {
	if p, ok := v.(*Panic); ok {
		return p
	}
	return &Panic{v, debug.Stack()}
}

func (p *Panic) String() string { return fmt.Sprint(p.Value) }

// Go runs a function in a goroutine.
func (g *Group) Go(f func()) {
	g.wg.Go(func() {
		defer func() {
			if v := recover(); v != nil {
				g.once.Do(func() { g.died = Recovered(v) })
			}
		}()
		f()
	})
}

// Wait waits until all functions have ended. If one panicked it panics with a
// *Panic, that of the first.
func (g *Group) Wait() {
	g.wg.Wait()
	if g.died != nil {
		panic(g.died)
	}
}
