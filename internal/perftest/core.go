package perftest

import "encoding/binary"

// A CoreSegment is a piece of memory in a core file.
type CoreSegment struct {
	Addr uint64
	Data []byte
	Size uint64 // that the header has; 0: that of Data
}

// Core returns an ELF core file of a 64-bit machine, as /proc/kcore is one.
func Core(machine uint16, order binary.AppendByteOrder, segments ...CoreSegment) []byte {
	data := byte(1)
	if order.AppendUint16(nil, 1)[0] == 0 {
		data = 2
	}
	const head, entry, page = 64, 56, 4096
	b := append([]byte("\x7fELF\x02"), data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	b = order.AppendUint16(b, 4) // ET_CORE
	b = order.AppendUint16(b, machine)
	b = order.AppendUint32(b, 1)
	for _, v := range []uint64{0, head, 0} {
		b = order.AppendUint64(b, v)
	}
	b = order.AppendUint32(b, 0)
	for _, v := range []int{head, entry, len(segments), 0, 0, 0} {
		b = order.AppendUint16(b, uint16(v))
	}
	at := uint64(head+entry*len(segments)+page-1) &^ (page - 1)
	for _, s := range segments {
		size := s.Size
		if size == 0 {
			size = uint64(len(s.Data))
		}
		b = order.AppendUint32(b, 1) // PT_LOAD
		b = order.AppendUint32(b, 7)
		for _, v := range []uint64{at, s.Addr, 0, size, size, page} {
			b = order.AppendUint64(b, v)
		}
		at += uint64(len(s.Data)+page-1) &^ (page - 1)
	}
	for _, s := range segments {
		b = append(b, make([]byte, (page-len(b)%page)%page)...)
		b = append(b, s.Data...)
	}
	return b
}
