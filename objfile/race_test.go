//go:build race

package objfile

// raceFactor is how much longer things take.
const raceFactor = 15
