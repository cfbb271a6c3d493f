package index

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// fixSums makes the checksums of an index right as far as it has the form of
// one.
func fixSums(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < headerSize {
		return b
	}
	body := uint64(0)
	for i := range recordSize {
		n := binary.LittleEndian.Uint64(b[countsAt+8*i:])
		if n > uint64(len(b)) {
			return b
		}
		body += n * uint64(recordSize[i])
	}
	if blocks := (body + blockSize - 1) / blockSize; headerSize+body+4*blocks == uint64(len(b)) {
		sums := b[headerSize+body:]
		for i := range blocks {
			at := headerSize + i*blockSize
			binary.LittleEndian.PutUint32(sums[4*i:], crc32.Checksum(b[at:min(at+blockSize, headerSize+body)], castagnoli))
		}
		binary.LittleEndian.PutUint32(b[countsAt+8*sections:], crc32.Checksum(sums, castagnoli))
	}
	binary.LittleEndian.PutUint32(b[headerSize-4:], crc32.Checksum(b[:headerSize-4], castagnoli))
	return b
}
