//go:build iced

package disasm

// What iced reaches.
const exactStarts, exactTexts, plainIntel = 100, 100, 100

const withIced = true
