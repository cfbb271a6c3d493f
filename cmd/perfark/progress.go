package main

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/perfark/perfark/internal/escape"
)

// progressDelay is how long a command may take before it shows its progress.
const progressDelay = time.Second

// meters draws the progress of a command on standard error, if that is a
// terminal, without -q, and not before the command has taken a second.
type meters struct {
	mu    sync.Mutex
	timer *time.Timer
	bars  *mpb.Progress // nil until the first is drawn
	all   []*meter

	// watch is told of the progress instead of the screen; nil for nobody.
	watch func(what string, n, total int64)
}

// A meter is the progress of one piece of work, in bytes. All its methods do
// nothing on a nil meter, and may be called from many goroutines.
type meter struct {
	ms       *meters
	what     atomic.Pointer[string] // "packing libc.so.6"; drawing takes no lock
	n, total atomic.Int64
	began    time.Time
	bar      atomic.Pointer[mpb.Bar] // nil until it is drawn
}

// meter starts the progress of a piece of work: what names it, total is its
// size in bytes, 0 if unknown. It returns nil where no progress is shown.
func (a *app) meter(what string, total int64) *meter {
	ms := &a.meters
	if ms.watch != nil {
		m := &meter{ms: ms, began: time.Now()}
		m.total.Store(total)
		m.Set(what)
		m.show(0)
		return m
	}
	if a.quiet || !isTerminal(a.stderr) {
		return nil
	}
	m := &meter{ms: ms, began: time.Now()}
	m.total.Store(total)
	m.Set(what)
	ms.mu.Lock()
	defer ms.mu.Unlock()
	ms.all = append(ms.all, m)
	switch {
	case ms.bars != nil:
		m.draw()
	case ms.timer == nil:
		ms.timer = time.AfterFunc(progressDelay, func() { ms.start(a.stderr) })
	}
	return m
}

func (ms *meters) start(w io.Writer) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.timer == nil { // stopped meanwhile
		return
	}
	ms.bars = mpb.New(mpb.WithOutput(w), mpb.WithWidth(40), mpb.WithRefreshRate(150*time.Millisecond))
	for _, m := range ms.all {
		m.draw()
	}
}

// draw begins to show m; the lock is held.
func (m *meter) draw() {
	bar := m.ms.bars.AddBar(m.total.Load(),
		mpb.PrependDecorators(
			decor.Any(func(decor.Statistics) string { return *m.what.Load() }, decor.WCSyncSpaceR),
			decor.Counters(decor.SizeB1000(0), "% .1f / % .1f"),
		),
		mpb.AppendDecorators(decor.AverageSpeed(decor.SizeB1000(0), "% .1f")),
		mpb.BarRemoveOnComplete(),
	)
	bar.DecoratorAverageAdjust(m.began)
	bar.SetCurrent(m.n.Load())
	m.bar.Store(bar)
}

// stage tells who watches what is being worked on, if it is not known how much
// of that there is.
func (a *app) stage(what string) {
	if a.meters.watch != nil {
		a.meters.watch(what, 0, 0)
	}
}

// Set says what is being worked on now.
func (m *meter) Set(what string) {
	if m == nil {
		return
	}
	what = escape.Name(what)
	m.what.Store(&what)
}

// At says how many bytes are done, and of how many if total is not 0.
func (m *meter) At(n, total int64) {
	if m == nil {
		return
	}
	m.n.Store(n)
	if total > 0 {
		m.total.Store(total)
	}
	m.show(n)
}

// Add adds n bytes to what is done.
func (m *meter) Add(n int64) {
	if m == nil {
		return
	}
	m.show(m.n.Add(n))
}

func (m *meter) show(n int64) {
	if m.ms.watch != nil {
		m.ms.watch(*m.what.Load(), n, m.total.Load())
		return
	}
	if bar := m.bar.Load(); bar != nil {
		bar.SetTotal(m.total.Load(), false)
		bar.SetCurrent(n)
	}
}

// stop takes all progress off the screen, before anything else is printed
// there.
func (ms *meters) stop() {
	ms.mu.Lock()
	bars, all := ms.bars, ms.all
	if ms.timer != nil {
		ms.timer.Stop()
	}
	ms.timer, ms.bars, ms.all = nil, nil, nil
	ms.mu.Unlock()
	if bars == nil {
		return
	}
	for _, m := range all {
		if bar := m.bar.Load(); bar != nil {
			bar.Abort(true)
		}
	}
	bars.Wait()
}
