package store

import "encoding/binary"

// bigEndian says how this host writes numbers: files of /sys are in its order.
var bigEndian = binary.NativeEndian.Uint16([]byte{1, 0}) != 1
