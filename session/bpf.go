package session

import (
	"cmp"
	"slices"

	"github.com/perfark/perfark/perfdata"
)

// addBPF appends the functions of BPF programs that the recording describes
// (BPF_PROG_INFO, with their names from BTF) and does not say where they were
// loaded (KSYMBOL): recorders and kernels that do the one and not the other.
func (l *loader) addBPF(changes []change) []change {
	progs, ok := l.f.BPFProgs()
	if !ok || len(progs) == 0 {
		return changes
	}
	type span struct{ start, end uint64 }
	var known []span
	for i := range changes {
		if k := changes[i].ksym; k != nil {
			known = append(known, span{k.Addr, k.Addr + uint64(k.Len)})
		}
	}
	slices.SortFunc(known, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	for i := 1; i < len(known); i++ {
		known[i].end = max(known[i].end, known[i-1].end)
	}
	names := l.f.BPFNames()
	for i := range progs {
		for j, f := range progs[i].Funcs {
			end := f.Addr + uint64(f.Size)
			n, _ := slices.BinarySearchFunc(known, end, func(s span, a uint64) int { return cmp.Compare(s.start, a) })
			if f.Size == 0 || end < f.Addr || n > 0 && known[n-1].end > f.Addr {
				continue
			}
			changes = append(changes, change{typ: typeKsymbol, ksym: &perfdata.Ksymbol{Addr: f.Addr, Len: f.Size, Name: names.Func(&progs[i], j)}})
		}
	}
	return changes
}
