package crew

import (
	"strings"
	"sync/atomic"
	"testing"
)

// Wait waits for all, whoever panics, and hands on the panic with its stack.
func TestGroup(t *testing.T) {
	var done atomic.Int32
	run := func(fail, inside bool) (died any) {
		defer func() { died = recover() }()
		var g Group
		for i := range 8 {
			g.Go(func() {
				defer done.Add(1)
				if i == 5 && fail {
					if !inside {
						panic("five")
					}
					var in Group
					in.Go(func() { panic("five") })
					in.Wait()
				}
			})
		}
		g.Wait()
		return nil
	}
	if died := run(false, false); died != nil || done.Load() != 8 {
		t.Errorf("%v, %d done", died, done.Load())
	}
	for _, inside := range []bool{false, true} {
		done.Store(0)
		p, ok := run(true, inside).(*Panic)
		if !ok || p.String() != "five" || !strings.Contains(string(p.Stack), "TestGroup") || done.Load() != 8 {
			t.Errorf("%v, %d done", p, done.Load())
		}
	}
}
