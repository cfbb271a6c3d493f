package capture

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/archive"
)

// unixStat is what os has of a file.
type unixStat = syscall.Stat_t

// Options say what a Dir is filled with, and what that may cost. A zero bound
// is none.
type Options struct {
	Every    time.Duration // from the beginning of a window to that of the next; 0: one window, and no more
	Keep     time.Duration // older bundles are removed
	MaxBytes int64         // of all that is in the directory, on the disk; the oldest bundles go first
	MaxCPU   float64       // percent of one processor, over time
	Host     string        // what names of bundles begin with; "" means host

	// Make makes the bundle of a window. If it fails, nothing is left of the
	// window but what is in the pool.
	Make func(ctx context.Context, w Window) (Made, error)

	// Note is told what keeps a window from being made, and what else the
	// keeper of the host should know; nil is for nobody.
	Note func(format string, args ...any)

	// Changed is called when Stats have changed; nil is for nobody.
	Changed func(Stats)

	cpu func() time.Duration // what the process has used of processors; nil: cpuTime
}

// A Window is a recording to be made, and what its bundle may be.
type Window struct {
	Bundle string        // the name of the file
	Pool   *archive.Pool // beside it
	Room   int64         // bytes that may be written in the directory, temporary files included; 0 means any number
	Strain Strain
}

// A Strain is how much has to be saved, as earlier windows cost too much.
type Strain int

// The strains.
const (
	Ease        Strain = iota // nothing has to be saved
	HalfRate                  // half as many samples
	QuarterRate               // a quarter
	NoDebug                   // that, and no search for debug information
)

// Rate returns the part of a frequency that a strain leaves, as what it is to be
// divided by.
func (s Strain) Rate() uint64 { return 1 << min(s, QuarterRate) }

// Made is what a window came to.
type Made struct {
	Samples, Lost uint64
	Missing       int   // objects
	Frames, Named int   // as the replay says
	Data          int64 // bytes of the recording
	Size          int64 // of the bundle
	Pooled        int64 // that went to the pool
}

// Stats count what happened since a Dir was opened.
type Stats struct {
	Complete, Partial uint64 // windows of which there is a bundle, by whether objects are missing
	Failed            uint64 // given up
	Skipped           uint64 // left out, for what others had cost, or as there was no room
	Missed            uint64 // whose time came while another one was made
	Samples, Lost     uint64
	Removed           uint64 // bundles
	Collected         uint64 // files of the pool

	Last     Made          // the last window of which there is a bundle
	LastTime time.Time     // when it began; zero: there is none
	Took     time.Duration // from its beginning until its bundle was there

	Bundles int   // that are there
	Bytes   int64 // of the directory
	CPU     time.Duration
	Strain  Strain
}

// Bounds of what is thought of the window to come, in bytes.
const (
	leastNeed = 8 << 20
	leastRoom = 256 << 10
)

// A runner is a run of a Dir.
type runner struct {
	*Dir
	o     Options
	stats Stats

	begun  time.Time
	tokens time.Duration // of the processor's time; less than 0: the next window waits
	filled time.Time     // when tokens were added
	need   int64         // bytes that a window takes, as far as is known
	spent  bool          // it was said that windows are skipped
}

// Run makes windows until ctx is done, which is no error; with Options.Every 0
// it makes one. It returns the error of the only window, or of the first if
// that is not one of room, as then nothing is to be expected of others.
//
// Windows begin at multiples of Every from the first, by the monotonic clock.
// Where one took too long, those whose time has passed are left out.
func (d *Dir) Run(ctx context.Context, o Options) (Stats, error) {
	if o.cpu == nil {
		o.cpu = cpuTime
	}
	if o.Note == nil {
		o.Note = func(string, ...any) {}
	}
	if o.Changed == nil {
		o.Changed = func(Stats) {}
	}
	r := &runner{Dir: d, o: o, begun: time.Now(), filled: time.Now()}
	r.tokens = r.share(max(o.Every, time.Minute))
	err := r.retain()
	if err != nil {
		return r.stats, err
	}
	for n := int64(0); ; {
		first := n == 0
		err := r.window(ctx)
		switch {
		case ctx.Err() != nil:
			return r.stats, nil
		case o.Every == 0 || err != nil && first && !isRoom(err):
			return r.stats, err
		case err != nil:
			r.o.Note("%v", err)
		}
		next := int64(time.Since(r.begun)/o.Every) + 1
		r.stats.Missed += uint64(next - n - 1)
		n = next
		r.changed()
		select {
		case <-time.After(time.Until(r.begun.Add(time.Duration(n) * o.Every))):
		case <-ctx.Done():
			return r.stats, nil
		}
	}
}

// isRoom reports whether an error is about room on the disk, which may be there
// another time.
func isRoom(err error) bool {
	return errors.Is(err, archive.ErrNoRoom) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

// ErrMemory is the cause of the end of a window that took too much memory.
var ErrMemory = errors.New("more memory than is allowed")

// share is what may be used of the processor in a time.
func (r *runner) share(d time.Duration) time.Duration {
	return time.Duration(float64(d) * r.o.MaxCPU / 100)
}

// window makes one window, unless what the last ones took forbids it.
func (r *runner) window(ctx context.Context) error {
	if !r.affordable() {
		r.stats.Skipped++
		if !r.spent {
			r.spent = true
			r.o.Note("windows are skipped: those before took more than %v %% of a processor", r.o.MaxCPU)
		}
		return nil
	}
	r.spent = false
	if err := r.retain(); err != nil {
		r.stats.Failed++
		return err
	}
	w := Window{Pool: r.pool, Strain: r.stats.Strain}
	if r.o.MaxBytes > 0 {
		if w.Room = r.o.MaxBytes - r.stats.Bytes; w.Room < leastRoom {
			r.stats.Skipped++
			return fmt.Errorf("%s: window skipped: %w: %d bytes are in it, and %d may be", r.name, archive.ErrNoRoom, r.stats.Bytes, r.o.MaxBytes)
		}
	}
	begun := time.Now()
	w.Bundle = BundleName(r.name, r.o.Host, begun)
	cpu := r.o.cpu()
	made, err := r.o.Make(ctx, w)
	cost := r.o.cpu() - cpu
	r.stats.CPU = r.o.cpu()
	r.tokens -= cost
	// What has its name is a bundle, even if ctx ended then, or an error came
	// after: what it refers to stays.
	if _, lerr := os.Lstat(w.Bundle); err == nil || !errors.Is(lerr, fs.ErrNotExist) {
		if aerr := r.add(context.WithoutCancel(ctx), w.Bundle, begun); err == nil {
			err = aerr
		}
	}
	if err != nil && ctx.Err() != nil {
		r.collect()
		return nil
	}
	r.strain(cost, err)
	if err != nil {
		r.stats.Failed++
		return errors.Join(fmt.Errorf("%s: given up: %w", filepath.Base(w.Bundle), err), r.relieve(err, w.Room))
	}
	r.need = max(r.need/2, made.Data+made.Size)
	r.stats.Last, r.stats.LastTime, r.stats.Took = made, begun, time.Since(begun)
	r.stats.Samples += made.Samples
	r.stats.Lost += made.Lost
	if made.Missing > 0 {
		r.stats.Partial++
	} else {
		r.stats.Complete++
	}
	return r.retain()
}

// affordable reports whether the share of the processor that was not used
// allows for another window. What is saved up is bounded: many windows in a row
// may not take what the hours before did not.
func (r *runner) affordable() bool {
	if r.o.MaxCPU <= 0 {
		return true
	}
	now := time.Now()
	r.tokens = min(r.tokens+r.share(now.Sub(r.filled)), r.share(max(10*r.o.Every, time.Minute)))
	r.filled = now
	return r.tokens >= 0
}

// strain is more after a window that took more than was saved up, or more memory
// than it may; and less after one that took a quarter of its share.
func (r *runner) strain(cost time.Duration, err error) {
	share := r.share(r.o.Every)
	was := r.stats.Strain
	switch {
	case errors.Is(err, ErrMemory), r.o.MaxCPU > 0 && r.o.Every > 0 && cost > share && r.tokens < 0:
		r.stats.Strain = min(was+1, NoDebug)
	case was > Ease && err == nil && (r.o.MaxCPU <= 0 || cost < share/4):
		r.stats.Strain--
	}
	if was == Ease && r.stats.Strain > Ease {
		r.o.Note("the next windows have fewer samples: one took %v of the processor, its share is %v", cost.Round(time.Millisecond), share.Round(time.Millisecond))
	}
}

// relieve makes room after a window that had too little. As long as there is
// more than one bundle, the oldest of them is worth less than the next one.
func (r *runner) relieve(err error, room int64) error {
	if _, cerr := r.countCollected(); cerr != nil {
		return cerr
	}
	switch {
	case errors.Is(err, archive.ErrNoRoom):
		// It would have needed more than there was: have twice that next time.
		r.need = max(r.need, 2*room)
		if r.o.MaxBytes > 0 {
			r.need = min(r.need, r.o.MaxBytes*3/4)
		}
	case isRoom(err):
		for len(r.bundles) > 1 && r.diskFree() < max(r.need, leastNeed) {
			if err := r.drop(); err != nil {
				return err
			}
		}
	}
	return r.retain()
}

// diskFree returns the bytes that are free on the disk.
func (r *runner) diskFree() int64 {
	var st unix.Statfs_t
	if unix.Statfs(r.name, &st) != nil {
		return 0
	}
	return int64(st.Bavail) * int64(st.Bsize)
}

// drop removes the oldest bundle, and what it alone referred to.
func (r *runner) drop() error {
	if err := r.removeOldest(); err != nil {
		return err
	}
	r.stats.Removed++
	_, err := r.countCollected()
	return err
}

func (r *runner) countCollected() (int, error) {
	n, err := r.collect()
	r.stats.Collected += uint64(n)
	return n, err
}

// retain removes the bundles that are too old, and the oldest until the next
// window has room; then what no bundle refers to.
func (r *runner) retain() error {
	for r.o.Keep > 0 && len(r.bundles) > 0 && time.Since(r.bundles[0].born) > r.o.Keep {
		if err := r.removeOldest(); err != nil {
			return err
		}
		r.stats.Removed++
	}
	if _, err := r.countCollected(); err != nil {
		return err
	}
	var others int64
	r.stats.Bytes, others = r.size()
	if r.o.MaxBytes > 0 {
		need := min(max(2*r.need, leastNeed), r.o.MaxBytes*3/4)
		// Where the files of others leave no room, it would help nobody.
		for len(r.bundles) > 0 && r.stats.Bytes+need > r.o.MaxBytes && others+leastRoom < r.o.MaxBytes {
			if err := r.drop(); err != nil {
				return err
			}
			r.stats.Bytes, others = r.size()
		}
	}
	r.changed()
	return nil
}

func (r *runner) changed() {
	r.stats.Bundles = len(r.bundles)
	r.o.Changed(r.stats)
}
