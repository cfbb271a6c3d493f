package main

import "sync"

// bpfLine returns what gives the source lines of the BPF programs in a
// recording; nil if it has none.
func (in *input) bpfLine() func(addr uint64) (file string, line int, ok bool) {
	progs, ok := in.BPFProgs()
	if !ok || len(progs) == 0 {
		return nil
	}
	var mu sync.Mutex
	names := in.BPFNames()
	return func(addr uint64) (string, int, bool) {
		mu.Lock()
		defer mu.Unlock()
		for i := range progs {
			if file, line, ok := names.Line(&progs[i], addr); ok {
				return file, line, true
			}
		}
		return "", 0, false
	}
}
