package report

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/perfark/perfark/profile"
)

// extra returns what few samples have, nil if s has nothing of that.
func (b *builder) extra(s *profile.Sample) *profile.Extra {
	if s.Extra == profile.None {
		return nil
	}
	return &b.p.Extras[s.Extra]
}

// The bits of perf_branch_entry behind from and to
// (include/uapi/linux/perf_event.h).
const (
	branchMispredicted = 1 << 0
	branchPredicted    = 1 << 1
	branchInTx         = 1 << 2
	branchAbort        = 1 << 3
)

// extraDim numbers what rows are told apart by, of each extra: values in
// order, names in that of names.
func (b *builder) extraDim(d *dim) {
	p := b.p
	value := func(most bool, f func(e *profile.Extra) uint64) {
		values := make([]uint64, len(p.Extras)+1)
		for i := range p.Extras {
			values[i+1] = f(&p.Extras[i])
		}
		d.codes = rankValues(values, most)
	}
	name := func(f func(e *profile.Extra) string) {
		names := make([]string, len(p.Extras)+1)
		for i := range p.Extras {
			names[i+1] = f(&p.Extras[i])
		}
		d.codes = ranks(names)
	}
	// By the order of places, what is nowhere last.
	place := func(key Key, f func(e *profile.Extra) int32) {
		of := b.dim(key)
		d.codes = make([]int32, len(p.Extras)+1)
		none := int32(0)
		if key == DSO { // what is no object has the last rank
			for i := range of.codes {
				if of.codes[i] >= math.MaxInt32-1 {
					of.codes[i] = int32(len(p.Objects))
				}
			}
		}
		for _, c := range of.codes {
			none = max(none, c+1)
		}
		d.codes[0] = none
		for i := range p.Extras {
			d.codes[i+1] = none
			if l := f(&p.Extras[i]); l != profile.None {
				d.codes[i+1] = of.codes[l]
			}
		}
		// perf orders objects from the last name here, symbols by address.
		d.rank = make([]int32, none+1)
		for c := range none {
			switch {
			case key == DSO:
				d.rank[c] = none - 1 - c
			case key != Symbol:
				d.rank[c] = of.order(c)
			default:
				d.rank[c] = c
			}
		}
		d.rank[none] = math.MaxInt32
	}
	from := func(e *profile.Extra) int32 { return e.From }
	to := func(e *profile.Extra) int32 { return e.To }
	data := func(e *profile.Extra) int32 { return e.Data }
	src := func(f func(v uint64) string) func(e *profile.Extra) string {
		return func(e *profile.Extra) string { return f(e.DataSrc) }
	}
	switch d.key {
	case LocalWeight, Weight:
		value(true, func(e *profile.Extra) uint64 { return e.Weight })
	case LocalInsLat, InsLat:
		value(true, func(e *profile.Extra) uint64 { return uint64(e.InsLat) })
	case LocalPStage, PStage:
		value(true, func(e *profile.Extra) uint64 { return uint64(e.PStage) })
	case Transaction:
		value(true, func(e *profile.Extra) uint64 { return e.Transaction })
	case CgroupID:
		name(func(e *profile.Extra) string { return fmt.Sprintf("%016x%016x", e.NSDev, e.NSIno) }) // in order
	case Cgroup:
		name(b.cgroup)
	case Trace:
		name(func(e *profile.Extra) string { return cmp.Or(traceText(e), "N/A") })
	case Time:
		value(false, func(e *profile.Extra) uint64 { return e.Time })
	case DSOSize:
		value(false, func(e *profile.Extra) uint64 { return signed(e.MapSize) })
	case CodePageSize:
		value(false, func(e *profile.Extra) uint64 { return e.CodePageSize })
	case DataPageSize:
		value(false, func(e *profile.Extra) uint64 { return e.DataPageSize })
	case PhysAddr:
		value(false, func(e *profile.Extra) uint64 { return signed(e.PhysAddr) })
	case DSOFrom:
		place(DSO, from)
	case DSOTo:
		place(DSO, to)
	case DSOData:
		place(DSO, data)
	case SymbolFrom:
		place(Symbol, from)
	case SymbolTo:
		place(Symbol, to)
	case SrclineFrom:
		place(Srcline, from)
	case SrclineTo:
		place(Srcline, to)
	case AddrFrom:
		place(SymbolOffset, from)
	case AddrTo:
		place(SymbolOffset, to)
	case SymbolData:
		value(false, func(e *profile.Extra) uint64 { return signed(e.Addr) })
	case CacheLine:
		value(false, func(e *profile.Extra) uint64 { return signed(e.Addr &^ 63) })
	case Mispredict:
		value(false, func(e *profile.Extra) uint64 { return e.BranchFlags & (branchMispredicted | branchPredicted) })
	case Abort:
		value(true, func(e *profile.Extra) uint64 { return e.BranchFlags & branchAbort })
	case InTx:
		value(true, func(e *profile.Extra) uint64 { return e.BranchFlags & branchInTx })
	case Cycles:
		value(true, func(e *profile.Extra) uint64 { return uint64(e.BranchCycles) })
	case Mem:
		name(src(memLevel))
	case Locked:
		name(src(memLock))
	case TLB:
		name(src(memTLB))
	case Snoop:
		name(src(memSnoop))
	case Blocked:
		name(src(memBlocked))
	default:
		values := make([]string, len(p.Extras)+1)
		for i := range p.Extras {
			values[i+1] = fieldText(&p.Extras[i], d.key.field())
		}
		d.codes = rankFields(values)
	}
}

func (b *builder) cgroup(e *profile.Extra) string {
	if name, ok := b.p.Cgroups[e.Cgroup]; ok {
		return name
	}
	if e.Cgroup == 0 {
		return "N/A"
	}
	return "unknown"
}

// names returns those of the bits of v that have one.
func names(v uint64, table []string) string {
	var out []string
	for i, n := range table {
		if v>>i&1 != 0 && n != "" {
			out = append(out, n)
		}
	}
	return strings.Join(out, " or ")
}

// The parts of perf_mem_data_src, from the lowest bit: op 5, lvl 14, snoop 5,
// lock 2, dtlb 7, lvl_num 4, remote 1, snoopx 2, blk 3, hops 3.
const (
	lvlShift    = 5
	snoopShift  = 19
	lockShift   = 24
	tlbShift    = 26
	lvlNumShift = 33
	remoteShift = 37
	snoopxShift = 38
	blkShift    = 40
)

// memLevel says where data was found.
func memLevel(v uint64) string {
	lvl := v >> lvlShift & (1<<14 - 1)
	out := names(lvl&^6, []string{"N/A", "", "", "L1", "LFB", "L2", "L3", "Local RAM", "Remote RAM (1 hop)", "Remote RAM (2 hops)",
		"Remote Cache (1 hop)", "Remote Cache (2 hops)", "I/O", "Uncached"})
	if n := v >> lvlNumShift & 15; n != 0 {
		name := map[uint64]string{9: "CXL", 10: "I/O", 11: "Any cache", 12: "LFB", 13: "RAM", 14: "PMEM", 15: "N/A"}[n]
		name = cmp.Or(name, "L"+strconv.Itoa(int(n)))
		if out != "" {
			out += " or "
		}
		out += name
	}
	if v>>remoteShift&1 != 0 {
		out = "Remote " + out
	}
	return hitMiss(cmp.Or(out, "N/A"), lvl)
}

func hitMiss(s string, v uint64) string {
	if v&2 != 0 {
		s += " hit"
	}
	if v&4 != 0 {
		s += " miss"
	}
	return s
}

func memTLB(v uint64) string {
	tlb := v >> tlbShift & (1<<7 - 1)
	return hitMiss(cmp.Or(names(tlb&^6, []string{"N/A", "", "", "L1", "L2", "Walker", "Fault"}), "N/A"), tlb)
}

func memSnoop(v uint64) string {
	s := names(v>>snoopShift&31, []string{"N/A", "None", "Hit", "Miss", "HitM"})
	if v>>snoopxShift&1 != 0 {
		if s != "" {
			s += " or "
		}
		s += "Fwd"
	}
	return cmp.Or(s, "N/A")
}

func memLock(v uint64) string {
	switch lock := v >> lockShift & 3; {
	case lock == 0 || lock&1 != 0:
		return "N/A"
	case lock&2 != 0:
		return "Yes"
	}
	return "No"
}

func memBlocked(v uint64) string {
	blk := v >> blkShift & 7
	if blk == 0 || blk&1 != 0 {
		return " N/A"
	}
	s := ""
	if blk&2 != 0 {
		s += " Data"
	}
	if blk&4 != 0 {
		s += " Addr"
	}
	return s
}

// pageSize names a size as perf does.
func pageSize(n uint64) string {
	if n == 0 {
		return "N/A"
	}
	unit := 0
	for n >= 1024 && unit < len("KMGTPE") {
		n, unit = n/1024, unit+1
	}
	if unit == 0 {
		return strconv.FormatUint(n, 10)
	}
	return strconv.FormatUint(n, 10) + "KMGTPE"[unit-1:unit]
}
