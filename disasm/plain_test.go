//go:build !iced

package disasm

// What x86asm reaches.
const exactStarts, exactTexts, plainIntel = 99.5, 85, 50

const withIced = false
