package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/index"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// addIndexFlags binds --no-index.
func (a *app) addIndexFlags(c *cobra.Command) {
	c.Flags().BoolVar(&a.noIndex, "no-index", false, "neither use nor keep what earlier runs found out about objects")
}

// indexes returns the cache of what was found out about objects: in
// $XDG_CACHE_HOME/perfark/index, or ~/.cache/perfark/index. It is nil, a cache
// without anything, with --no-index, with "index = off" in the section
// [perfark] of perf's configuration, and without a home directory.
// "index-size = SIZE" there is how large it may get.
func (a *app) indexes() *index.Cache {
	dir := a.env.cacheHome
	if dir == "" && a.env.home != "" {
		dir = filepath.Join(a.env.home, ".cache")
	}
	if a.noIndex || !filepath.IsAbs(dir) {
		return nil
	}
	var size sizeValue
	configs := a.env.configs()
	for i := len(configs) - 1; i >= 0; i-- {
		b, err := os.ReadFile(configs[i])
		if err != nil {
			continue
		}
		settings, _ := store.ParseConfig(b) // what is wrong in it, the caches say
		for _, s := range settings {
			if s.Section != "perfark" {
				continue
			}
			switch s.Key {
			case "index":
				a.noIndex = s.Value == "off" || s.Value == "false" || s.Value == "no" || s.Value == "0"
			case "index-size":
				if err := size.Set(s.Value); err != nil {
					a.verbosef("%s: perfark.index-size: %s", configs[i], err)
				}
			}
		}
	}
	if a.noIndex {
		return nil
	}
	return index.NewCache(filepath.Join(dir, "perfark", "index"), int64(size))
}

// resolve names the locations of a profile, with the help of the indexes.
func (a *app) resolve(ctx context.Context, p *profile.Profile, o symbol.Options) (*symbol.Outcome, error) {
	x := a.indexes()
	o.Index, o.Limits = x, a.limits
	out, err := symbol.Resolve(ctx, p, o)
	if terr := x.Trim(); terr != nil {
		a.verbosef("%s: %s", x.Dir(), terr)
	}
	return out, err
}

// explainLines says on standard error what lacks source lines and why, most
// samples first: if lines were asked for; else only what lacks a part of its
// debug information, and so inlined functions.
func (a *app) explainLines(p *profile.Profile, out *symbol.Outcome, lines bool) {
	const most = 5
	said := 0
	for _, x := range out.Unlined() {
		part := x.LineReason == symbol.NoShared || x.LineReason == symbol.NoSplit
		if !part && !lines {
			continue
		}
		if said++; said > most && a.verbose == 0 {
			a.notef("and more (-v lists them)")
			break
		}
		what := "no lines"
		if part {
			what = "incomplete lines"
		}
		text := string(x.LineReason)
		if x.LineDetail != "" {
			text += ": " + x.LineDetail
		}
		a.notef("%s: %s: %s of %s, %s: %s", what, objectText(p, x.Object), thousands(uint64(x.Frames-x.FramesLined)), count(x.Frames, "location"), count(int(x.Samples), "sample"), text)
		if x.LineHint != "" && (part || a.verbose > 0) {
			a.hintf("%s", x.LineHint)
		}
	}
}
