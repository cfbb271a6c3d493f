package main

import (
	"github.com/spf13/pflag"

	"github.com/perfark/perfark/record"
)

// addCopyFlags binds how much is copied of files that will not be there later.
func (c *recordCmd) addCopyFlags(fs *pflag.FlagSet) {
	o := &c.o.Copies
	fs.Var((*sizeValue)(&o.MaxBytes), "copies-max-bytes", "copy at most `SIZE` of files that will not be there later (default: 1G)")
	fs.Var((*sizeValue)(&o.MaxFile), "copies-max-file", "copy none that is larger than `SIZE` (default: 512M)")
	fs.IntVar(&o.MaxFiles, "copies-max-files", 0, "copy at most `N` files (default: 10000)")
}

// copies sets where copies go, if nothing is said: to the cache, as perf puts
// its there.
func (c *recordCmd) copies() {
	if c.o.Copies.Dir == "" && c.cache && !c.o.NoBuildID {
		c.o.Copies.Dir = c.cacheDir()
	}
}

// leftShown is how many of the files that were left out are listed without -v.
const leftShown = 5

// kept says what was copied, and what could not be.
func (c *recordCmd) kept(st *record.Stats) {
	s := &st.Copies
	if s.Files > 0 {
		c.verbosef("copied to %s, as it will not be there later: %s, %s", c.o.Copies.Dir, count(s.Files, "file"), bytesText(s.Bytes))
	}
	for i := range s.Left {
		if i == leftShown && c.verbose == 0 && len(s.Left)+s.More > leftShown+1 {
			c.note("%d more files that will not be there later could not be copied; -v lists them", len(s.Left)+s.More-leftShown)
			return
		}
		l := &s.Left[i]
		c.note("%q will not be there later, and was not copied: %s", l.Path, l.Why)
	}
	if s.More > 0 {
		c.note("%d more files were not copied", s.More)
	}
}
