package session

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/unwind"
)

// TestCode: code of a jitdump is where its times say, and what is mapped
// around it again and again does not hide it.
func TestCode(t *testing.T) {
	const maps = `comm pid=5 tid=5 name=vm time=1 misc=0x2000
mmap2 pid=5 tid=5 start=0x10000 len=0x1000 prot=5 ino=9 maj=1 min=2 name=/tmp/jit-5.dump time=2
mmap2 pid=5 tid=5 start=0x40000 len=0x10000 prot=7 name=//anon time=3
mmap2 pid=5 tid=5 start=0x90000 len=0x1000 prot=7 name=//anon time=3
sample pid=5 tid=5 ip=0x40104 time=5
mmap2 pid=5 tid=5 start=0x40000 len=0x10000 prot=7 name=//anon time=15
sample pid=5 tid=5 ip=0x40104 time=20
sample pid=5 tid=5 ip=0x40104 time=30
sample pid=5 tid=5 ip=0x41104 time=30
sample pid=5 tid=5 ip=0x41104 time=40
sample pid=5 tid=5 ip=0x90004 time=40
sample pid=5 tid=5 ip=0x4f000 time=40
fork pid=6 tid=6 ppid=5 ptid=5 time=45
sample pid=6 tid=6 ip=0x41104 time=46
comm pid=5 tid=5 name=sh time=50 misc=0x2000
mmap2 pid=5 tid=5 start=0x70000 len=0x1000 prot=5 name=/bin/sh time=51
mmap2 pid=5 tid=5 start=0x80000 len=0x1000 prot=5 name=[vdso] time=52
mmap2 pid=5 tid=5 start=0x40000 len=0x10000 prot=7 name=//anon time=53
sample pid=5 tid=5 ip=0x41104 time=60
`
	log := &CodeLog{Monotonic: true, Code: []Code{
		{Time: 10, Addr: 0x40100, Size: 16, Off: 100},
		{Time: 25, Addr: 0x40100, Size: 16, Off: 200},
		{Time: 35, Addr: 0x41100, Size: 16, Off: 200}, // moved
		{Time: 36, Addr: 1<<64 - 8, Size: 16, Off: 300},
		{Time: 37, Addr: 0x5000, Size: 0, Off: 400},
	}}
	code := func(o *profile.Object) *CodeLog {
		if o.Kind != profile.KindJIT || o.Path != "/tmp/jit-5.dump" || o.PID != 5 || o.Ino != 9 || o.Maj != 1 || o.Min != 2 {
			t.Errorf("asked for the code of %+v", o)
		}
		return log
	}
	mono := "event cycles use_clockid clockid=1 sample=IDENTIFIER|IP|TID|TIME|CPU|PERIOD\n"
	check(t, mono+maps, Options{Code: code, Keep: KeepComm | KeepTID},
		"vm/5 1: . [JIT] tid 5 0x40104",
		"vm/5 1: . jit-5.dump 0x68",
		"vm/5 2: . jit-5.dump 0xcc", // second, and after it was moved
		"vm/5 1: . [JIT] tid 5 0x41104",
		"vm/5 1: . [JIT] tid 5 0x90004",
		"vm/5 1: . [JIT] tid 5 0x4f000",
		"vm/6 1: . jit-5.dump 0xcc",
		"sh/5 1: . [JIT] tid 5 0x41104",
	)
	// Nobody has the file: it is a file like others, and hit by nothing.
	check(t, mono+maps, Options{Keep: KeepComm | KeepTID},
		"vm/5 3: . [JIT] tid 5 0x40104", "vm/5 2: . [JIT] tid 5 0x41104", "vm/5 1: . [JIT] tid 5 0x90004", "vm/5 1: . [JIT] tid 5 0x4f000",
		"vm/6 1: . [JIT] tid 5 0x41104", "sh/5 1: . [JIT] tid 5 0x41104")
	// Another clock: what was made last is there.
	for _, clock := range []string{"event cycles", "event cycles use_clockid clockid=0", "event cycles use_clockid clockid=1"} {
		l := *log
		l.Monotonic = clock != "event cycles use_clockid clockid=1"
		r := loadData(t, perftest.Data(t, clock+" sample=IDENTIFIER|IP|TID|TIME|CPU|PERIOD\n"+maps), Options{Code: func(*profile.Object) *CodeLog { return &l }})
		if len(r.UntimedCode) != 1 || r.Profile.Objects[r.UntimedCode[0]].Kind != profile.KindJIT {
			t.Errorf("%s: untimed %v", clock, r.UntimedCode)
		}
		hit := func(addr uint64) bool {
			return slices.ContainsFunc(r.Profile.Locations, func(l profile.Location) bool {
				return l.Object == r.UntimedCode[0] && l.Addr == addr
			})
		}
		if !hit(204) || hit(104) {
			t.Errorf("%s: locations %+v", clock, r.Profile.Locations)
		}
	}
}

// TestIsCodeDump: which mappings say where a process writes down its code.
func TestIsCodeDump(t *testing.T) {
	for line, want := range map[string]bool{
		"prot=5 name=/tmp/jit-5.dump":                   true,
		"prot=5 name=/root/.debug/jit/x.Ab/jit-77.dump": true,
		"prot=1 name=/tmp/jit-5.dump":                   false,
		"prot=5 name=/tmp/jit-.dump":                    false,
		"prot=5 name=/tmp/jit-5x.dump":                  false,
		"prot=5 name=/tmp/jit-5.dump.so":                false,
		"prot=5 name=/tmp/xjit-5.dump":                  false,
	} {
		asked := false
		loadData(t, perftest.Data(t, header+"mmap2 pid=5 tid=5 start=0x10000 len=0x1000 "+line+" time=2\n"), Options{Code: func(*profile.Object) *CodeLog {
			asked = true
			return nil
		}})
		if asked != want {
			t.Errorf("%s: asked %v", line, asked)
		}
	}
}

// TestUnwindCode: code of a jitdump has no rules to unwind by. Its frames are
// followed by the frame pointer, as those of other code made at run time.
func TestUnwindCode(t *testing.T) {
	stack := make([]byte, 48)
	binary.LittleEndian.PutUint64(stack[16:], 0x7ff020) // the caller's frame pointer
	binary.LittleEndian.PutUint64(stack[24:], 0x40205)  // where the call returns to
	binary.LittleEndian.PutUint64(stack[40:], 0x91005)
	text := fmt.Sprintf(`event cycles use_clockid clockid=1 sample=IDENTIFIER|IP|TID|TIME|CPU|PERIOD|CALLCHAIN|REGS_USER|STACK_USER sample_regs_user=0x1c0 sample_stack_user=48
comm pid=5 tid=5 name=vm time=1
mmap2 pid=5 tid=5 start=0x10000 len=0x1000 prot=5 name=/tmp/jit-5.dump time=2
mmap2 pid=5 tid=5 start=0x40000 len=0x10000 prot=7 name=//anon time=3
mmap2 pid=5 tid=5 start=0x91000 len=0x1000 prot=7 name=//anon time=3
sample pid=5 tid=5 ip=0x40104 time=20 chain=user,0x40104 regs=0x7ff010,0x7ff000,0x40104 stack=%x
feature arch x86_64
`, stack)
	log := &CodeLog{Monotonic: true, Code: []Code{{Time: 10, Addr: 0x40100, Size: 16, Off: 100}, {Time: 10, Addr: 0x40200, Size: 16, Off: 200}}}
	r := loadData(t, perftest.Data(t, text), Options{
		Keep:   KeepComm | KeepTID | KeepStacks,
		Code:   func(*profile.Object) *CodeLog { return log },
		Unwind: func(*profile.Object) *unwind.Module { return nil },
	})
	want := []string{"vm/5 1: . jit-5.dump 0x68 <- . jit-5.dump 0x68 | . jit-5.dump 0xcc | . [JIT] tid 5 0x91004"}
	if got := rows(r); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
