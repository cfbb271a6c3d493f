package doctor

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
)

// A chainEnd counts how the call chains of user code end that pass through an
// object last.
type chainEnd struct {
	broken uint64 // after it, or at it though it was called from somewhere
	whole  uint64
}

// The kernel's default limit of a chain, in frames.
const maxStack = 127

// Limits of the walk over a chain and of what is read of an object's code.
const (
	maxWalk      = 1 << 16
	maxPrologues = 256
)

// chains says what is wrong with call chains: none were recorded, they end in
// code without frame pointers, or at the kernel's limit.
func (d *recordingDoctor) chains(ctx context.Context) error {
	s := d.Session
	if d.total == 0 {
		return nil
	}
	have := slices.ContainsFunc(d.File.Events(), func(ev perfdata.Event) bool { return ev.Attr.SampleType&perfdata.SampleCallchain != 0 })
	if !have {
		if s.Branches == 0 {
			f := d.add(Finding{Kind: NoChains, Level: Note, What: "no call chains were recorded: who calls what is not known"})
			f.fix(d.again("-g"), d.onHost())
		}
		return nil
	}
	ends, deep := d.ends()
	if deep > 0 {
		f := d.add(Finding{Kind: DeepChains, Level: Risk, Samples: deep,
			What: fmt.Sprintf("call chains were cut at the kernel's limit of %d frames: their outermost callers are missing", d.limit())})
		f.fix("sudo sysctl kernel.perf_event_max_stack=1024 && "+d.again("--max-stack 1024"), d.onHost())
	}
	if s.UserStacks > 0 || s.Branches > 0 {
		return nil // not followed by frame pointers
	}
	for i := range ends {
		if err := ctx.Err(); err != nil {
			return err
		}
		e := &ends[i]
		if e.broken < 10 || e.broken*100 < d.total || e.broken*4 < e.whole {
			continue
		}
		d.framePointers(ctx, int32(i), e.broken)
	}
	return nil
}

// limit is the number of frames at which chains were cut.
func (d *recordingDoctor) limit() int {
	n := 0
	for _, ev := range d.File.Events() {
		n = max(n, int(ev.Attr.SampleMaxStack))
	}
	if n == 0 {
		return maxStack
	}
	return n
}

// ends looks at every chain, and counts those that are as long as they may be.
func (d *recordingDoctor) ends() (ends []chainEnd, deep uint64) {
	ends = make([]chainEnd, len(d.p.Objects))
	limit := d.limit()
	type verdict struct {
		object int32 // of the last user frame that is mapped; None if there is none
		broken bool
		deep   bool
	}
	memo := map[int32]verdict{}
	for i := range d.p.Samples {
		smp := &d.p.Samples[i]
		if smp.Stack == profile.None {
			continue
		}
		v, ok := memo[smp.Stack]
		if !ok {
			v.object = profile.None
			user, frames, lost := 0, 0, false
			for at := smp.Stack; at >= 0 && int(at) < len(d.p.Stacks) && frames < maxWalk; at = d.p.Stacks[at].Caller {
				frames++
				l := &d.p.Locations[d.p.Stacks[at].Location]
				if l.Level != profile.LevelUser {
					continue
				}
				user++
				if l.Object == profile.None {
					lost = true
				} else if !lost {
					v.object = l.Object
				}
			}
			v.deep = frames >= limit
			v.broken = !v.deep && (lost || user == 1)
			memo[smp.Stack] = v
		}
		if v.deep {
			deep += smp.Count
		}
		if v.object == profile.None {
			continue
		}
		if v.broken {
			ends[v.object].broken += smp.Count
		} else {
			ends[v.object].whole += smp.Count
		}
	}
	return ends, deep
}

// framePointers says that chains end in an object, unless its code shows that
// it does keep frame pointers.
func (d *recordingDoctor) framePointers(ctx context.Context, object int32, broken uint64) {
	o := &d.p.Objects[object]
	f := Finding{Kind: FramePtr, Level: Loss, Object: o.Path, ID: o.BuildID, Samples: broken}
	switch o.Kind {
	case profile.KindVDSO, profile.KindSpecial, profile.KindUnnamed:
		return
	case profile.KindPerfMap:
		f.Object = o.Short
		f.What = "call chains end in code made at run time, which keeps no frame pointers"
		if runtimeOf(mapped(d.Session, process(d.Session, o.PID))).name == "Java" {
			f.fix("java -XX:+PreserveFramePointer …", "")
		}
		f.fix(d.again("--call-graph dwarf"), d.onHost())
		d.list = append(d.list, f)
		return
	}
	with, of := d.prologues(ctx, object)
	if of > 0 && with*2 >= of {
		return
	}
	f.What = "call chains end in it: it seems to be built without frame pointers, and callers are missing or wrong"
	if of > 0 {
		f.What = fmt.Sprintf("call chains end in it, as it is built without frame pointers (%d of %d functions that were hit set one up): callers are missing or wrong", with, of)
	}
	f.fix(d.again("--call-graph dwarf"), d.onHost())
	if !d.packaged(o.Path) {
		f.fix("", "build it with -fno-omit-frame-pointer (gcc, clang), -C force-frame-pointers=yes (rustc)")
	}
	d.list = append(d.list, f)
}

// prologues counts how many of the functions of an object that were hit set up
// a frame pointer; of is 0 if its code cannot be looked at.
func (d *recordingDoctor) prologues(ctx context.Context, object int32) (with, of int) {
	o := &d.p.Objects[object]
	if d.Source == nil || o.Kind != profile.KindFile {
		return 0, 0
	}
	f, err := d.Source.Get(ctx, store.Key{ID: o.BuildID, Kind: store.ELF, Path: o.Path, Maj: o.Maj, Min: o.Min, Ino: o.Ino, InoGen: o.InoGen})
	if err != nil {
		return 0, 0
	}
	defer f.Close()
	x, err := objfile.Open(f, f.Size, f.Origin, decode.NewBudget(decode.Limits{}))
	if err != nil || x.DebugOnly() {
		return 0, 0
	}
	buf := make([]byte, prologue)
	for i := range d.p.Functions {
		fn := &d.p.Functions[i]
		if fn.Object != object || fn.Inlined || fn.End <= fn.Start || strings.HasSuffix(fn.Name, "@plt") || of == maxPrologues {
			continue
		}
		n, _ := f.ReadAt(buf[:min(uint64(len(buf)), fn.End-fn.Start)], int64(fn.Start))
		set, known := setsFramePointer(buf[:n], x.Machine(), x.Big())
		if !known {
			return 0, 0
		}
		of++
		if set {
			with++
		}
	}
	return with, of
}

// prologue is how much of a function is looked at, in bytes.
const prologue = 64

// setsFramePointer reports whether a function that begins with code sets up a
// frame pointer; known is false for machines whose code it does not know.
func setsFramePointer(code []byte, m objfile.Machine, big bool) (set, known bool) {
	switch m {
	case objfile.MachineX86_64: // push %rbp; mov %rsp,%rbp
		s := string(code)
		return strings.Contains(s, "\x55\x48\x89\xe5") || strings.Contains(s, "\x55\x48\x8b\xec"), true
	case objfile.Machine386: // push %ebp; mov %esp,%ebp
		s := string(code)
		return strings.Contains(s, "\x55\x89\xe5") || strings.Contains(s, "\x55\x8b\xec"), true
	case objfile.MachineAArch64: // stp x29, x30, [sp, …]
		for ; len(code) >= 4; code = code[4:] {
			if binary.LittleEndian.Uint32(code)&0xfc407fff == 0xa8007bfd {
				return true, true
			}
		}
		return false, true
	case objfile.MachineRISCV: // addi s0, sp, …, or c.addi4spn s0, sp, …
		for ; len(code) >= 4; code = code[2:] {
			if binary.LittleEndian.Uint32(code)&0xfffff == 0x10413 {
				return true, true
			}
			if h := binary.LittleEndian.Uint16(code); h&0xe01f == 0 && h != 0 {
				return true, true
			}
		}
		return false, true
	}
	return false, false
}
