package symbol

import (
	"context"
	"fmt"
	"slices"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/store"
)

// Code returns what session.Options.Code wants: the code in the jitdump files
// that src yields. A file that src does not have, or that cannot be read, has
// none.
func Code(ctx context.Context, src store.Source, l decode.Limits) func(*profile.Object) *session.CodeLog {
	return func(obj *profile.Object) *session.CodeLog {
		sf, err := src.Get(ctx, key(obj, store.JITDump))
		if err != nil {
			return nil
		}
		defer closeFile(sf)
		d, err := objfile.ReadJITDump(sf, sf.Size, decode.NewBudget(l))
		if err != nil {
			return nil
		}
		log := &session.CodeLog{Monotonic: !d.ArchTime, Code: make([]session.Code, len(d.Code))}
		for i := range d.Code {
			j := &d.Code[i]
			log.Code[i] = session.Code{Time: j.Time, Addr: j.Addr, Size: j.Size, Off: uint64(j.Off)}
		}
		return log
	}
}

// jitDump names code that was made at run time, where the file that has the
// code, too, has its name.
func (r *resolver) jitDump(ctx context.Context, t *task, obj *profile.Object) {
	sf, err := r.get(ctx, key(obj, store.JITDump))
	if err != nil {
		t.out.Reason, t.out.Detail = reason(err, obj)
		if t.out.Reason == NotFound || t.out.Reason == NoBuildID {
			t.out.Reason = NoJITDump
		}
		return
	}
	defer closeFile(sf)
	d, err := objfile.ReadJITDump(sf, sf.Size, decode.NewBudget(r.o.Limits))
	if err != nil {
		t.out.Reason, t.out.Detail = Damaged, err.Error()
		return
	}
	t.out.Origins = append(t.out.Origins, sf.Origin)
	t.out.Warnings = append(t.out.Warnings, d.Warnings...)
	t.name(r.p, d, 0, asIs)
	r.linesAt(ctx, t, jitLines{d})
}

// linesAt looks up lines by the addresses of the locations as they are.
func (r *resolver) linesAt(ctx context.Context, t *task, src lineSource) {
	if !r.wantLines() {
		return
	}
	t.listed = slices.Clone(t.named)
	t.at = make([]uint64, len(t.locs))
	for n := range t.at {
		t.at[n] = t.codeAddr(r.p, n)
	}
	same := func(addr uint64) (uint64, bool) { return addr, true }
	r.lookUp(ctx, t, src, same, same)
}

// bpfLines gives the locations of a BPF program their lines.
func (r *resolver) bpfLines(ctx context.Context, t *task) {
	if r.o.BPFLine != nil {
		r.linesAt(ctx, t, bpfLines{r.p.Objects[t.object].Start, r.o.BPFLine})
	}
}

// bpfLines are those that the recording itself has.
type bpfLines struct {
	start uint64
	line  func(addr uint64) (file string, line int, ok bool)
}

func (b bpfLines) frames(addr uint64, buf []frame) ([]frame, error) {
	if file, n, ok := b.line(addr); ok {
		buf = append(buf, frame{start: b.start, file: file, line: line(n)})
	}
	return buf, nil
}

// dumpOf returns the path of the jitdump that the process of a perf map had
// mapped, as a file that nobody has; "" if it had none.
func (r *resolver) dumpOf(obj *profile.Object) string {
	name := fmt.Sprintf("jit-%d.dump", obj.PID)
	for i := range r.p.Objects {
		if o := &r.p.Objects[i]; o.Kind == profile.KindFile && o.Short == name {
			return o.Path
		}
	}
	return ""
}

// jitLines are those of a jitdump file.
type jitLines struct{ d *objfile.JITDump }

func (j jitLines) frames(addr uint64, buf []frame) ([]frame, error) {
	i, ok := j.d.Find(addr)
	if !ok {
		return buf, nil
	}
	f := frame{start: j.d.Sym(i).Start}
	if file, n, ok := j.d.Line(addr); ok {
		f.file, f.line = file, line(n)
	}
	return append(buf, f), nil
}
