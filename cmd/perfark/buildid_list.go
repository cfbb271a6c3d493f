package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/store"
)

// A buildIDListCmd is a run of perfark buildid-list.
type buildIDListCmd struct {
	*app
	withHits   bool
	kernel     bool
	kernelMaps bool
	workers    int
}

func newBuildIDListCmd(a *app) *cobra.Command {
	c := &buildIDListCmd{app: a}
	cmd := &cobra.Command{
		Use:   "buildid-list [FILE]",
		Short: "list the Build IDs in a recording, an archive or an object",
		Long: `Buildid-list prints a line per object: its Build ID, left-aligned in 40 columns,
and its path. FILE is a recording, an archive of perfark or of perf, an ELF file with
an id of any length, or -; it is perf.data by default.

Of a recording, the ids in its table are listed. With --with-hits, and where there is
no table, the objects that were hit are: by the address of a sample, in a call chain
or in a branch stack. An object whose id is not known has blanks in its place and is
named on standard error too.`,
		Example: `  perfark buildid-list
  perfark buildid-list -i perf.data --with-hits
  perfark buildid-list perf.data.tar.bz2
  perfark buildid-list /usr/bin/perf
  perfark buildid-list -k                 # the running kernel`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if c.kernel || c.kernelMaps {
				if len(args) > 0 || c.input != "" {
					return usagef("-k and -m are about the running kernel: no input, please")
				}
				return c.runKernel()
			}
			name, err := a.inputName(args)
			if err != nil {
				return err
			}
			return c.run(cmd.Context(), name)
		},
	}
	a.addInputFlags(cmd)
	a.addArchiveLimitFlags(cmd)
	a.addOutputFlags(cmd)
	fs := cmd.Flags()
	fs.BoolVarP(&c.withHits, "with-hits", "H", false, "list the objects that were hit, in call chains and branch stacks too")
	fs.BoolVarP(&c.kernel, "kernel", "k", false, "print the Build ID of the running kernel")
	fs.BoolVarP(&c.kernelMaps, "kernel-maps", "m", false, "list the running kernel and its modules: id, start, end, name")
	addJobsFlag(cmd, &c.workers)
	return cmd
}

// A listedID is a line of buildid-list.
type listedID struct {
	ID   buildid.ID   `json:"build_id"`
	Path archive.Name `json:"path"`
	GoID string       `json:"go_build_id,omitempty"`
	Kind store.Kind   `json:"-"` // of the file to look for under the id
	key  store.Key
}

func (c *buildIDListCmd) run(ctx context.Context, name string) error {
	if done, err := c.runELF(name); done {
		return err
	}
	in, err := c.openInput(ctx, name)
	if errors.Is(err, perfdata.ErrNotPerfData) || err != nil && name != "-" {
		// Not a recording, or an archive without one.
		arc, aerr := archive.Open(ctx, name, c.archiveOptions())
		if aerr != nil {
			return err
		}
		defer arc.Close()
		return c.print(archived(arc))
	}
	if err != nil {
		return err
	}
	defer in.Close()
	if in.bundle != nil && !c.withHits {
		return c.print(archived(in.bundle))
	}
	list, res, err := c.listIDs(ctx, in, c.withHits, c.workers)
	if err != nil {
		return err
	}
	if err := c.print(list); err != nil {
		return err
	}
	c.stdout.Flush()
	c.noteMissing(list)
	return c.listLoss(in, res)
}

// listLoss says what of a recording could not be read. Without res only the
// header was.
func (a *app) listLoss(in *input, res *session.Result) error {
	return a.lossError(in, res)
}

// runELF lists the id of an object file; done is false if the file is none.
func (c *buildIDListCmd) runELF(name string) (done bool, err error) {
	if name == "-" {
		return false, nil
	}
	fi, err := os.Stat(name)
	if err != nil || !fi.Mode().IsRegular() {
		return false, nil // openInput says why
	}
	f, err := os.Open(name)
	if err != nil {
		return false, nil
	}
	defer f.Close()
	module := strings.Contains(name, ".ko")
	if !module && !isELF(f) {
		return false, nil
	}
	o, err := objfile.Open(f, fi.Size(), name, decode.NewBudget(c.limits))
	if err != nil {
		if module && errors.Is(err, objfile.ErrNotELF) {
			return false, nil
		}
		return true, fmt.Errorf("%s: %w", name, err)
	}
	if o.BuildID() == "" {
		err := fmt.Errorf("%s: has no build id", name)
		if o.GoID() != "" {
			err = fmt.Errorf("%s: has no GNU build id; its Go build id is %s", name, o.GoID())
		}
		return true, hintf(err, "link it with -Wl,--build-id=sha1; Go: without -ldflags=-B=none")
	}
	for _, w := range o.Warnings() {
		c.verbosef("%s: %s", name, w)
	}
	if c.json {
		return true, c.printJSON([]listedID{{ID: o.BuildID(), Path: archive.Name(name), GoID: o.GoID()}})
	}
	fmt.Fprintln(c.stdout, o.BuildID())
	if o.GoID() != "" && !c.quiet {
		c.stdout.Flush()
		c.notef("%s: its Go build id is %s", name, o.GoID())
	}
	return true, nil
}

// isELF reports whether a file begins as an object file does.
func isELF(r io.ReaderAt) bool {
	var magic [4]byte
	_, err := r.ReadAt(magic[:], 0)
	return err == nil && string(magic[:]) == "\x7fELF"
}

// archived lists the objects of an archive.
func archived(arc *archive.Archive) []listedID {
	var list []listedID
	for _, o := range arc.Objects() {
		if o.Kind == "perfmap" || o.Kind == "jitdump" {
			continue
		}
		paths := o.Paths
		if len(paths) == 0 {
			paths = []archive.Name{""}
		}
		for _, p := range paths {
			list = append(list, listedID{ID: o.ID, Path: p, GoID: o.GoID})
		}
	}
	return sortIDs(list)
}

// listIDs returns the objects of a recording that have ids, as perf does: those
// of the table, or those that were hit. The result is nil if the records were
// not read.
func (a *app) listIDs(ctx context.Context, in *input, withHits bool, workers int) ([]listedID, *session.Result, error) {
	table := in.BuildIDs()
	// Hardware traces are not decoded: what they hit is not known, so all that
	// is in the table is listed.
	if _, traced := in.Auxtrace(); len(table) > 0 && (!withHits || traced) {
		list := make([]listedID, 0, len(table))
		for _, r := range table {
			list = append(list, newListedID(r.BuildID.Trim(), r.Name, kindOfName(r.Name)))
		}
		return sortIDs(list), nil, nil
	}
	res, err := a.load(ctx, in, session.Options{Workers: workers, HitsOnly: true})
	if err != nil {
		return nil, nil, err
	}
	var list []listedID
	for i := range res.Profile.Objects {
		o := &res.Profile.Objects[i]
		if res.Hit[i]&session.HitFrame == 0 || o.Kind == profile.KindUnnamed {
			continue
		}
		x := newListedID(o.BuildID.Trim(), cmp.Or(o.Path, o.Short), kindOfObject(o.Kind))
		x.key.Maj, x.key.Min, x.key.Ino, x.key.InoGen = o.Maj, o.Min, o.Ino, o.InoGen
		list = append(list, x)
	}
	return sortIDs(list), res, nil
}

func newListedID(id buildid.ID, name string, kind store.Kind) listedID {
	return listedID{ID: id, Path: archive.Name(name), Kind: kind, key: store.Key{ID: id, Kind: kind, Path: name}}
}

// kindOfName returns the kind of file that answers for a recorded name.
func kindOfName(name string) store.Kind {
	switch {
	case strings.HasPrefix(name, "[kernel."), strings.HasPrefix(name, "[guest.kernel."):
		return store.Kallsyms
	case strings.HasPrefix(name, "[vdso"):
		return store.VDSO
	}
	return store.ELF
}

// kindOfObject returns the kind of file that answers for an object; "" if none
// does.
func kindOfObject(k profile.ObjectKind) store.Kind {
	switch k {
	case profile.KindKernel, profile.KindGuestKernel:
		return store.Kallsyms
	case profile.KindVDSO:
		return store.VDSO
	case profile.KindFile, profile.KindModule, profile.KindGuestModule:
		return store.ELF
	}
	return ""
}

// sortIDs puts kernels first, leaves the others in the order met, and drops
// lines that are equal to an earlier one.
func sortIDs(list []listedID) []listedID {
	slices.SortStableFunc(list, func(a, b listedID) int {
		return cmp.Compare(rankName(string(a.Path)), rankName(string(b.Path)))
	})
	seen := map[store.Key]bool{}
	return slices.DeleteFunc(list, func(x listedID) bool {
		k := store.Key{ID: x.ID, Path: string(x.Path)}
		if seen[k] {
			return true
		}
		seen[k] = true
		return false
	})
}

func rankName(name string) int {
	if strings.HasPrefix(name, "[kernel.") {
		return 0
	}
	return 1
}

// print prints the list in perf's form, or as JSON.
func (c *buildIDListCmd) print(list []listedID) error {
	if c.json {
		return c.printJSON(orEmpty(list))
	}
	for _, x := range list {
		if _, err := fmt.Fprintf(c.stdout, "%-40s %s\n", x.ID, escape.Name(string(x.Path))); err != nil {
			return err
		}
	}
	return nil
}

// noteMissing says which files were hit whose id is not known. What is no file
// has none.
func (c *buildIDListCmd) noteMissing(list []listedID) {
	var missing []string
	for _, x := range list {
		if x.ID == "" && x.Kind != "" {
			missing = append(missing, string(x.Path))
		}
	}
	if len(missing) == 0 {
		return
	}
	const most = 10
	c.notef("the recording has no build id of %s:", count(len(missing), "object"))
	for i, name := range missing {
		if i == most && c.verbose == 0 && len(missing) > most+1 {
			c.notef("and %d more (-v lists them)", len(missing)-most)
			break
		}
		c.notef("  %s", name)
	}
	c.hintf("perf record --buildid-mmap puts the id of every file into the recording")
}

// runKernel lists the running kernel, and with -m its modules.
func (c *buildIDListCmd) runKernel() error {
	if !c.kernelMaps {
		id, err := store.KernelID("")
		if err != nil {
			return err
		}
		if c.json {
			return c.printJSON([]listedID{{ID: id, Path: "[kernel.kallsyms]"}})
		}
		fmt.Fprintln(c.stdout, id)
		return nil
	}
	maps, err := store.KernelMaps("", "")
	if err != nil {
		return err
	}
	if c.json {
		type line struct {
			ID    buildid.ID `json:"build_id"`
			Start string     `json:"start"`
			End   string     `json:"end"`
			Name  string     `json:"name"`
		}
		lines := []line{}
		for _, m := range maps {
			lines = append(lines, line{m.ID, fmt.Sprintf("%#x", m.Start), fmt.Sprintf("%#x", m.End), m.Name})
		}
		return c.printJSON(lines)
	}
	for _, m := range maps {
		fmt.Fprintf(c.stdout, "%-40s %16x %16x %s\n", m.ID, m.Start, m.End, escape.Name(m.Name))
	}
	if maps[0].Start == 0 {
		c.stdout.Flush()
		c.hintf("the kernel hides its addresses: run it as root, or see sysctl kernel.kptr_restrict")
	}
	return nil
}
