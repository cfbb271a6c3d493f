package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/store"
)

// A buildIDCacheCmd is a run of perfark buildid-cache.
type buildIDCacheCmd struct {
	*app
	add, remove, update, purge []string
	purgeAll, list             bool
	missing                    string
	kcore                      string
}

func newBuildIDCacheCmd(a *app) *cobra.Command {
	c := &buildIDCacheCmd{app: a}
	cmd := &cobra.Command{
		Use:   "buildid-cache",
		Short: "add, list and remove the objects that are kept by Build ID",
		Long: `Buildid-cache manages the directory in which perf and perfark look for objects by
their Build ID (see docs/store.md). Files are copied, never linked to, and verified;
of two copies of a program the one that can name more stays. FILES are names, with
commas between them; -a and -u take [kernel.kallsyms] and [vdso] of the running
kernel too, and -r also takes Build IDs. -k copies the code of the running kernel
and of its modules out of memory, so that its functions can be annotated.

-l prints a line per file: id, path, kind, size, what it can name, and what is wrong
with it, if anything, with tabs between them after the path.

Exit status: 0 all is done; 1 nothing of it; 3 a part.`,
		Example: `  perfark buildid-cache -a ./server,./libserver.so
  perfark buildid-cache -l
  perfark buildid-cache -M perf.data       # what is missing to read perf.data
  perfark buildid-cache -r ./server
  perfark buildid-cache -k /proc/kcore     # as root
  perfark buildid-cache gc --max-size 2G --older-than 90d --dry-run`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unexpected argument %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringArrayVarP(&c.add, "add", "a", nil, "add `FILES`, and their debug files")
	fs.StringArrayVarP(&c.remove, "remove", "r", nil, "remove what has the Build IDs of `FILES`")
	fs.StringArrayVarP(&c.update, "update", "u", nil, "add `FILES` in the place of what is there")
	fs.StringArrayVarP(&c.purge, "purge", "p", nil, "remove everything that is kept for the paths `FILES`")
	fs.BoolVarP(&c.purgeAll, "purge-all", "P", false, "remove everything")
	fs.BoolVarP(&c.list, "list", "l", false, "list what is there")
	fs.StringVarP(&c.missing, "missing", "M", "", "list the objects of the recording `FILE` that are not there")
	fs.StringVarP(&c.kcore, "kcore", "k", "", "copy the code in `KCORE`, which is /proc/kcore or a copy of it, with kallsyms and modules beside it")
	fs.BoolVarP(&a.force, "force", "f", false, "write into a directory that others own or may write to")
	fs.StringArrayVar(&a.debugDirs, "debug-dir", nil, "look for debug files in `DIR` too; may be repeated")
	a.addOutputFlags(cmd)
	cmd.AddCommand(newBuildIDCacheGCCmd(a))
	return cmd
}

func (c *buildIDCacheCmd) run(ctx context.Context) error {
	actions := []struct {
		files []string
		do    func(context.Context, string) error
	}{
		{c.add, func(ctx context.Context, name string) error {
			return c.put(ctx, name, store.PutOptions{Force: c.force})
		}},
		{c.remove, c.removeID},
		{c.update, func(ctx context.Context, name string) error {
			return c.put(ctx, name, store.PutOptions{Force: c.force, Update: true})
		}},
		{c.purge, c.purgePath},
	}
	if c.kcore != "" {
		actions = append(actions, struct {
			files []string
			do    func(context.Context, string) error
		}{[]string{c.kcore}, c.putKcore})
	}
	if len(c.add)+len(c.remove)+len(c.update)+len(c.purge) == 0 && !c.purgeAll && !c.list && c.missing == "" && c.kcore == "" {
		return usagef("nothing to do: one of -a, -r, -u, -p, -P, -k, -l, -M is wanted")
	}
	done, failed := 0, 0
	for _, a := range actions {
		for _, name := range splitFiles(a.files) {
			err := a.do(ctx, name)
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err != nil {
				c.notef("buildid-cache: %s", err)
				for _, h := range hints(err) {
					c.hintf("%s", h)
				}
				failed++
				continue
			}
			done++
		}
	}
	if c.purgeAll {
		gone, err := c.cache().Remove(ctx, store.RemoveOptions{All: true, Force: c.force})
		c.sayRemoved(gone)
		if err != nil {
			return err
		}
		done++
	}
	switch {
	case failed > 0 && done == 0:
		return &exitError{code: exitFailed}
	case failed > 0:
		return partialf("%s of %d could not be done", count(failed, "thing"), done+failed)
	}
	if c.missing != "" {
		if err := c.printMissing(ctx); err != nil {
			return err
		}
	}
	if c.list {
		return c.printList(ctx)
	}
	return nil
}

func (a *app) cache() *store.BuildIDCache { return store.Cache(a.cacheDir()) }

// splitFiles splits lists at commas, but not a name of a file that is there.
func splitFiles(lists []string) []string {
	var names []string
	for _, l := range lists {
		if _, err := os.Lstat(l); err == nil {
			names = append(names, l)
			continue
		}
		for name := range strings.SplitSeq(l, ",") {
			if name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// put adds a file, and its separate debug file if there is one.
func (c *buildIDCacheCmd) put(ctx context.Context, name string, o store.PutOptions) error {
	k, src, err := c.keyOf(name)
	if err != nil {
		return err
	}
	f, err := src.Get(ctx, k)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	if k.ID == "" {
		c.notef("%s: has no build id: it is kept by its content and path, for perfark only", name)
	}
	if err := c.putFile(ctx, k, f, o); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if k.Kind != store.ELF || k.ID == "" {
		return nil
	}
	dirs, err := c.debugDirectories()
	if err != nil {
		return err
	}
	k.Kind = store.Debug
	d, err := store.Multi(store.DebugDirs(dirs), store.Debuglinks(src, dirs)).Get(ctx, k)
	if err != nil {
		for _, r := range store.Refusals(err) {
			c.verbosef("%s", r)
		}
		return nil // most have none
	}
	defer d.Close()
	return c.putFile(ctx, k, d, o)
}

// putKcore adds a copy of the code of a kernel and its modules.
func (c *buildIDCacheCmd) putKcore(ctx context.Context, name string) error {
	dir := filepath.Dir(name)
	if fi, err := os.Stat(name); err == nil && fi.IsDir() {
		dir = name
	} else if err == nil && filepath.Base(name) != "kcore" {
		return fmt.Errorf("%s: not named kcore", name)
	}
	id, err := store.KcoreID(dir)
	if err != nil {
		return hintf(err, "-k ROOT/proc/kcore takes it from ROOT/sys/kernel/notes; --buildid-dir DIR buildid-cache -k DIR/[kernel.kcore]/ID/TIME/kcore, from the name")
	}
	k, err := store.ReadKcore(dir)
	if errors.Is(err, fs.ErrNotExist) && filepath.Clean(dir) == "/proc" {
		return hintf(err, "this kernel shows no copy of its memory (CONFIG_PROC_KCORE)")
	}
	if errors.Is(err, fs.ErrPermission) {
		return hintf(err, "reading the memory of the kernel needs root (CAP_SYS_RAWIO)")
	}
	if err != nil {
		return err
	}
	now := time.Now()
	stamp := fmt.Sprintf("%s%02d", now.Format("20060102150405"), now.Nanosecond()/10_000_000)
	at, stored, err := c.cache().PutKcore(ctx, id, k, stamp, store.PutOptions{Force: c.force})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if stored {
		c.verbosef("kcore added to %s/%s", c.cacheDir(), at)
	} else {
		c.verbosef("the same kcore is in %s/%s", c.cacheDir(), at)
	}
	return nil
}

// putFile adds an open file and says so with -v.
func (c *buildIDCacheCmd) putFile(ctx context.Context, k store.Key, f *store.File, o store.PutOptions) error {
	res, err := c.cache().Put(ctx, k, f, o)
	if conflict, ok := errors.AsType[*store.ConflictError](err); ok {
		return hintf(conflict, "-u puts the new one in its place")
	}
	if err != nil {
		return err
	}
	switch {
	case res.Conflict != "":
		c.notef("%s: a different program has the same build id %s: %s; both are kept, and perf will use that one", k.Path, k.ID, res.Conflict)
	case res.Stored:
		c.verbosef("added %s", res.File)
	default:
		c.verbosef("%s is there, and as good", res.File)
	}
	return nil
}

// keyOf returns what a file is kept as, and the source that yields it.
func (c *buildIDCacheCmd) keyOf(name string) (store.Key, store.Source, error) {
	host := store.Host(store.HostOptions{})
	switch name {
	case "[kernel.kallsyms]":
		id, err := store.KernelID("")
		return store.Key{ID: id, Kind: store.Kallsyms, Path: name}, host, err
	case "[vdso]":
		id, err := store.RunningVDSO()
		return store.Key{ID: id, Kind: store.VDSO, Path: name}, host, err
	}
	// perf keeps objects under their real path.
	p, err := filepath.Abs(name)
	if err == nil {
		p, err = filepath.EvalSymlinks(p)
	}
	if err != nil {
		return store.Key{}, nil, fmt.Errorf("%s: %w", name, pathless(err))
	}
	id, err := store.FileID(p)
	if err != nil {
		return store.Key{}, nil, err
	}
	return store.Key{ID: id, Kind: store.ELF, Path: p}, store.OneFile(p), nil
}

// removeID removes what has the id of a file, or the id that is given.
func (c *buildIDCacheCmd) removeID(ctx context.Context, name string) error {
	var id buildid.ID
	k, _, err := c.keyOf(name)
	switch {
	case err == nil && k.ID == "":
		return c.purgePath(ctx, name)
	case err == nil:
		id = k.ID
	default:
		if id, _ = buildid.Parse(name); id == "" {
			if errors.Is(err, fs.ErrNotExist) {
				return hintf(err, "-p removes what is kept for a path, also if the file is gone")
			}
			return err
		}
	}
	gone, err := c.cache().Remove(ctx, store.RemoveOptions{ID: id, Force: c.force})
	c.sayRemoved(gone)
	if err == nil && len(gone) == 0 {
		err = fmt.Errorf("%s: nothing with build id %s in %s", name, id, c.cacheDir())
	}
	return err
}

// purgePath removes everything that is kept for a path.
func (c *buildIDCacheCmd) purgePath(ctx context.Context, name string) error {
	paths := []string{name}
	if !strings.HasPrefix(name, "[") {
		abs, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		paths = []string{abs}
		if real, err := filepath.EvalSymlinks(abs); err == nil && real != abs {
			paths = append(paths, real)
		}
	}
	n := 0
	for _, p := range paths {
		gone, err := c.cache().Remove(ctx, store.RemoveOptions{Path: p, Force: c.force})
		c.sayRemoved(gone)
		if err != nil {
			return err
		}
		n += len(gone)
	}
	if n == 0 {
		return fmt.Errorf("%s: nothing is kept for it in %s", name, c.cacheDir())
	}
	return nil
}

func (c *buildIDCacheCmd) sayRemoved(gone []store.Entry) {
	for _, e := range gone {
		c.verbosef("removed %s", e.File)
	}
}

// printMissing lists the objects of a recording that the cache has not.
func (c *buildIDCacheCmd) printMissing(ctx context.Context) error {
	in, err := c.openInput(ctx, c.missing)
	if err != nil {
		return err
	}
	defer in.Close()
	list, res, err := c.listIDs(ctx, in, false, 0)
	if err != nil {
		return err
	}
	var keys []store.Key
	for _, x := range list {
		if x.Kind != "" {
			keys = append(keys, x.key)
		}
	}
	missing, err := c.cache().Missing(ctx, keys)
	if err != nil {
		return err
	}
	if c.json {
		out := []listedID{}
		for _, k := range missing {
			out = append(out, newListedID(k.ID, k.Path, k.Kind))
		}
		if err := c.printJSON(out); err != nil {
			return err
		}
	} else {
		for _, k := range missing {
			fmt.Fprintf(c.stdout, "%-40s %s\n", k.ID, escape.Name(k.Path))
		}
	}
	c.stdout.Flush()
	return c.listLoss(in, res)
}

// A cacheLine is a file of the cache in JSON.
type cacheLine struct {
	ID      buildid.ID   `json:"build_id,omitempty"`
	Hash    string       `json:"sha256,omitempty"`
	GoID    string       `json:"go_build_id,omitempty"`
	Path    archive.Name `json:"path"`
	Kind    store.Kind   `json:"kind"`
	File    archive.Name `json:"file"`
	Size    int64        `json:"size"`
	Quality string       `json:"quality,omitempty"`
	Used    time.Time    `json:"used,omitzero"`
	Linked  bool         `json:"linked"`
	Problem string       `json:"problem,omitempty"`
}

func cacheLines(list []store.Entry) []cacheLine {
	lines := []cacheLine{}
	for _, e := range list {
		l := cacheLine{e.ID, e.Hash, e.GoID, archive.Name(e.Path), e.Kind, archive.Name(e.File), e.Size, "", e.Used.UTC(), e.Linked, e.Problem}
		if e.Kind == store.ELF || e.Kind == store.Debug {
			l.Quality = e.Quality.String()
		}
		lines = append(lines, l)
	}
	return lines
}

// printList lists what is in the cache.
func (c *buildIDCacheCmd) printList(ctx context.Context) error {
	list, err := c.cache().List(ctx)
	if err != nil {
		return err
	}
	if c.json {
		return c.printJSON(cacheLines(list))
	}
	c.printEntries(list)
	return nil
}

// printEntries prints a line per file. Empty lists of probes, which perf makes
// for every object, are shown with -v.
func (a *app) printEntries(list []store.Entry) {
	for _, e := range list {
		if e.Kind == store.Probes && e.Size == 0 && a.verbose == 0 {
			continue
		}
		fmt.Fprintf(a.stdout, "%-40s %s\t%s\t%s", cmp.Or(e.ID.String(), e.Hash), escape.Name(cmp.Or(e.Path, e.File)), e.Kind, bytesText(e.Size))
		if e.Kind == store.ELF || e.Kind == store.Debug {
			fmt.Fprintf(a.stdout, "\t%s", e.Quality)
		}
		if e.Problem != "" {
			fmt.Fprintf(a.stdout, "\tunusable: %s", escape.Name(e.Problem))
		}
		fmt.Fprintln(a.stdout)
	}
}

// A buildIDCacheGCCmd is a run of perfark buildid-cache gc.
type buildIDCacheGCCmd struct {
	*app
	maxSize   sizeValue
	olderThan ageValue
	dryRun    bool
}

func newBuildIDCacheGCCmd(a *app) *cobra.Command {
	c := &buildIDCacheGCCmd{app: a}
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "remove what was not used for long, or does not fit",
		Long: `Gc removes objects that were not used for as long as --older-than says, then those
not used for longest until the rest fits into --max-size, and in any case what is of
no use: links that lead nowhere, files that do not carry their id, and what programs
that were stopped left behind. It prints the lines of what it removed, as -l does.`,
		Example: `  perfark buildid-cache gc --max-size 2G
  perfark buildid-cache gc --older-than 90d --dry-run`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unexpected argument %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.Var(&c.maxSize, "max-size", "keep at most `SIZE`, such as 500M or 4G")
	fs.Var(&c.olderThan, "older-than", "remove what was not used for `AGE`, such as 12h, 30d or 8w")
	fs.BoolVarP(&c.dryRun, "dry-run", "n", false, "print what would be removed, and remove nothing")
	fs.BoolVarP(&a.force, "force", "f", false, "in a directory that others own or may write to")
	a.addOutputFlags(cmd)
	return cmd
}

func (c *buildIDCacheGCCmd) run(ctx context.Context) error {
	o := store.GCOptions{MaxSize: int64(c.maxSize), DryRun: c.dryRun, Force: c.force, Now: time.Now()}
	if c.olderThan > 0 {
		o.Before = o.Now.Add(-time.Duration(c.olderThan))
	}
	gone, err := c.cache().GC(ctx, o)
	if c.json {
		if jerr := c.printJSON(cacheLines(gone)); jerr != nil {
			return jerr
		}
		return err
	}
	c.printEntries(gone)
	c.stdout.Flush()
	if !c.quiet {
		verb := "removed"
		if c.dryRun {
			verb = "would remove"
		}
		c.notef("%s %s, %s", verb, count(len(gone), "file"), bytesText(store.TotalSize(gone)))
	}
	return err
}

// An ageValue is a flag's value: a time as 90s, 45m, 12h, 30d or 8w.
type ageValue time.Duration

// Set parses s.
func (v *ageValue) Set(s string) error {
	units := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}
	if s != "" {
		unit := units[s[len(s)-1:]]
		n, err := strconv.ParseInt(s[:len(s)-1], 10, 64)
		if err == nil && unit > 0 && n >= 0 && n <= math.MaxInt64/int64(unit) {
			*v = ageValue(time.Duration(n) * unit)
			return nil
		}
	}
	return fmt.Errorf("%q is not a time such as 90s, 45m, 12h, 30d or 8w", s)
}

// String returns the time in Go's form, "" for 0.
func (v *ageValue) String() string {
	if *v == 0 {
		return ""
	}
	return time.Duration(*v).String()
}

// Type names the kind of value in the help.
func (v *ageValue) Type() string { return "AGE" }
