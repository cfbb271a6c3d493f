//go:build race

package dwarf_test

const raceEnabled = true
