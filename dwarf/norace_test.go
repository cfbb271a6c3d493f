//go:build !race

package dwarf_test

const raceEnabled = false
