package main

import "strconv"

// appendDataSrc appends where the data of a sample came from, as a number and
// in words: union perf_mem_data_src of include/uapi/linux/perf_event.h.
func appendDataSrc(b []byte, v uint64) []byte {
	b = appendHex(b, v, 16)
	b = append(b, " |OP "...)
	b = appendMemOp(b, v&0x1f)
	b = append(b, "|LVL "...)
	b = appendMemLevel(b, v)
	b = append(b, "|SNP "...)
	b = appendMemSnoop(b, v>>19&0x1f, v>>38&3)
	b = append(b, "|TLB "...)
	b = appendMemTLB(b, v>>26&0x7f)
	b = append(b, "|LCK "...)
	switch lock := v >> 24 & 3; {
	case lock&1 != 0:
		b = append(b, "N/A"...)
	case lock&2 != 0:
		b = append(b, "Yes"...)
	default:
		b = append(b, "No"...)
	}
	b = append(b, "|BLK "...)
	return appendMemBlock(b, v>>40&7)
}

// appendBits appends the names of the bits that are set, joined by sep.
func appendBits(b []byte, bits uint64, names []string, sep string) []byte {
	n := len(b)
	for i, name := range names {
		if bits>>i&1 != 0 && name != "" {
			if len(b) > n {
				b = append(b, sep...)
			}
			b = append(b, name...)
		}
	}
	if len(b) == n {
		b = append(b, "N/A"...)
	}
	return b
}

func appendMemOp(b []byte, op uint64) []byte {
	return appendBits(b, op, []string{"N/A", "LOAD", "STORE", "PFETCH", "EXEC"}, "")
}

func appendMemSnoop(b []byte, snoop, more uint64) []byte {
	n := len(b)
	b = appendBits(b, snoop, []string{"N/A", "None", "Hit", "Miss", "HitM"}, " or ")
	for bit, name := range []string{"Fwd", "Peer"} {
		if more>>bit&1 == 0 {
			continue
		}
		if snoop == 0 && string(b[n:]) == "N/A" {
			b = b[:n]
		} else {
			b = append(b, " or "...)
		}
		b = append(b, name...)
	}
	return b
}

func appendMemTLB(b []byte, tlb uint64) []byte {
	const hit, miss = 2, 4
	n := len(b)
	b = appendBits(b, tlb&^(hit|miss), []string{"N/A", "", "", "L1", "L2", "Walker", "Fault"}, " or ")
	if string(b[n:]) == "N/A" {
		return b
	}
	if tlb&hit != 0 {
		b = append(b, " hit"...)
	}
	if tlb&miss != 0 {
		b = append(b, " miss"...)
	}
	return b
}

// memLevels are the bits of mem_lvl, memNumbers the values of mem_lvl_num that
// are no caches by their level, memHops those of mem_hops.
var (
	memLevels = []string{"N/A", "", "", "L1", "LFB/MAB", "L2", "L3", "Local RAM", "Remote RAM (1 hop)", "Remote RAM (2 hops)",
		"Remote Cache (1 hop)", "Remote Cache (2 hops)", "I/O", "Uncached"}
	memNumbers = [16]string{9: "CXL", 10: "I/O", 11: "Any cache", 12: "LFB/MAB", 13: "RAM", 14: "PMEM", 15: "N/A"}
	memHops    = [8]string{1: "core, same node", 2: "node, same socket", 3: "socket, same board", 4: "board"}
)

func appendMemLevel(b []byte, v uint64) []byte {
	const hit, miss = 2, 4
	level := v >> 5 & 0x3fff
	number, remote, hops := v>>33&15, v>>37&1, v>>43&7
	n := len(b)
	if remote != 0 {
		b = append(b, "Remote "...)
	}
	some := false
	if hops != 0 {
		b = append(append(b, memHops[hops]...), ' ')
	} else if bits := level &^ (hit | miss); bits != 0 {
		b = appendBits(b, bits, memLevels, " or ")
		some = true
	}
	if number != 0 {
		if some {
			b = append(b, " or "...)
		}
		if name := memNumbers[number]; name != "" {
			b = append(b, name...)
		} else {
			b = strconv.AppendUint(append(b, 'L'), number, 10)
		}
	}
	if len(b) == n {
		b = append(b, "N/A"...)
	}
	if level&hit != 0 {
		b = append(b, " hit"...)
	}
	if level&miss != 0 {
		b = append(b, " miss"...)
	}
	return b
}

func appendMemBlock(b []byte, block uint64) []byte {
	const na, data, addr = 1, 2, 4
	if block&na != 0 || block == 0 {
		return append(b, " N/A"...)
	}
	if block&data != 0 {
		b = append(b, " Data"...)
	}
	if block&addr != 0 {
		b = append(b, " Addr"...)
	}
	return b
}
