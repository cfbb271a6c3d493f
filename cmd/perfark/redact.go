package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/redact"
	"github.com/perfark/perfark/store"
)

// redactFlags say what is replaced.
type redactFlags struct {
	policy  string
	rules   []string
	also    []string
	allow   []string
	stacks  string
	objects string
	key     string
}

// addFlags binds all but the policy.
func (r *redactFlags) addFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&r.rules, "rule", nil, "set `NAME=RULE` of the policy: "+strings.Join(redact.RuleNames(), ", ")+"; may be repeated")
	fs.StringArrayVar(&r.also, "also", nil, "replace `WORD` too, wherever it stands; may be repeated")
	fs.StringArrayVar(&r.allow, "allow", nil, "leave `WORD` as it is; may be repeated")
	fs.StringVar(&r.stacks, "user-stacks", "", "do `RULE` with copies of user stacks: mask, drop or keep (default: mask)")
	fs.StringVar(&r.objects, "objects", "", "do `RULE` with files that hold names: mask, drop or keep (default: mask)")
	fs.StringVar(&r.key, "key", "", "make pseudonyms with the secret in `FILE`, the same in all recordings (default: numbers)")
}

// read returns the policy.
func (r *redactFlags) read() (redact.Policy, error) {
	p, named := redact.Named(r.policy)
	if !named && r.policy != "" {
		f, err := os.Open(r.policy)
		if errors.Is(err, fs.ErrNotExist) {
			return p, usagef("policy %q: not one of default, strict, and no such file", r.policy)
		}
		if err != nil {
			return p, fmt.Errorf("policy %s: %w", r.policy, pathless(err))
		}
		p, err = redact.ParsePolicy(f)
		f.Close()
		if err != nil {
			return p, &exitError{exitUsage, fmt.Errorf("policy %s: %w", r.policy, err)}
		}
	}
	rules := r.rules
	if r.stacks != "" {
		rules = append(rules, "user-stacks="+r.stacks)
	}
	if r.objects != "" {
		rules = append(rules, "objects="+r.objects)
	}
	for _, s := range rules {
		name, rule, ok := strings.Cut(s, "=")
		if !ok {
			return p, usagef("--rule %q: want NAME=RULE", s)
		}
		if err := p.Set(name, redact.Rule(rule)); err != nil {
			return p, usagef("--rule: %s", err)
		}
	}
	p.Also, p.Allow = append(p.Also, r.also...), append(p.Allow, r.allow...)
	for _, w := range r.also {
		if len(w) < 2 {
			return p, usagef("--also %q: want at least two characters", w)
		}
	}
	if r.key == "" {
		return p, nil
	}
	f, err := os.Open(r.key)
	if err != nil {
		return p, fmt.Errorf("--key: %s: %w", r.key, pathless(err))
	}
	defer f.Close()
	if p.Key, err = io.ReadAll(io.LimitReader(f, 1<<16)); err != nil {
		return p, fmt.Errorf("--key: %s: %w", r.key, pathless(err))
	}
	if len(p.Key) < 16 {
		return p, usagef("--key %s: has %d bytes; a secret of at least 16 is wanted, such as head -c 32 /dev/urandom gives", r.key, len(p.Key))
	}
	return p, nil
}

// A redactCmd is a run of perfark redact.
type redactCmd struct {
	*app
	redactFlags
	arc     *archiveCmd
	preview bool
	replace bool
}

func newRedactCmd(a *app) *cobra.Command {
	c := &redactCmd{app: a, arc: &archiveCmd{app: a, all: true}}
	cmd := &cobra.Command{
		Use:   "redact IN OUT",
		Short: "write a recording or a bundle anew without names that nobody is to see",
		Long: `Redact writes a recording without the names in it that say whose it is: of the host
and of users, home directories, containers; without the arguments of the command that
was recorded, values of environment variables, tokens and passwords. The same name
becomes the same pseudonym everywhere, and what is sampled, and its symbols, stay as
they are.

IN is a recording of any kind, or a bundle. Of a bundle the binaries are redacted too:
names in them are overwritten where they stand, and such a file is marked, so that
whoever has the original prefers it. With a name that ends in .perfark, OUT becomes a
bundle in any case, as of perfark archive --all.

At last every byte of what was written, decompressed, is searched for every name that
was replaced. If one is found there is no OUT.

--preview shows what would be replaced by what, and what stays, and writes nothing. It
shows the secrets themselves. Times, addresses, process numbers, and names of functions
stay in any case.

Exit status: 0 done; 3 done, but something was damaged, left out or kept; 1 failed, and
there is no OUT; 2 wrong usage.`,
		Example: `  perfark redact --preview perf.data
  perfark redact perf.data public.data
  perfark redact --policy strict --user-stacks drop app.perfark public.perfark
  perfark redact --also projectx --allow build perf.data public.perfark`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case c.preview && len(args) != 1 && len(args) != 2:
				return usagef("want a recording or a bundle")
			case !c.preview && len(args) != 2:
				return usagef("want what is to be redacted, and the name of what is written")
			}
			out := ""
			if len(args) == 2 {
				out = args[1]
			}
			return c.run(cmd.Context(), args[0], out)
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&c.preview, "preview", "n", false, "say what would be replaced by what and what stays; write nothing")
	fs.StringVar(&c.policy, "policy", "", "follow `POLICY`: default, strict, or a file (default: default)")
	c.addFlags(fs)
	fs.BoolVarP(&c.replace, "force", "f", false, "replace OUT if it is there")
	c.arc.addPackFlags(cmd)
	a.addSymbolFlags(cmd)
	a.addLimitFlags(cmd)
	a.addArchiveLimitFlags(cmd)
	a.addOutputFlags(cmd)
	addJobsFlag(cmd, &c.arc.workers)
	return cmd
}

func (c *redactCmd) run(ctx context.Context, name, out string) error {
	p, err := c.read()
	if err != nil {
		return err
	}
	if err := c.check(name, out); err != nil {
		return err
	}
	in, err := c.openInput(ctx, name)
	if err != nil {
		return err
	}
	defer in.Close()
	where := os.TempDir()
	if out != "" && out != "-" {
		where = filepath.Dir(out)
	}
	bundle := in.bundle != nil || strings.HasSuffix(out, archive.Bundle.Ext())
	work, err := newWorkDir(where)
	if err != nil {
		return fmt.Errorf("%s: %w", where, pathless(err))
	}
	defer work.remove()
	made := filepath.Join(work.name, "redacted")
	x, err := c.conceal(ctx, in, p, made)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer x.Close()
	var missing error
	if bundle && (!c.preview || in.bundle != nil) {
		packed := filepath.Join(work.name, "redacted"+archive.Bundle.Ext())
		if missing, err = c.bundle(ctx, x, name, packed); err != nil {
			return err
		}
		made = packed
	}
	c.meters.stop()
	rep := x.hidden.r.Report()
	if err := c.print(name, out, rep); err != nil {
		return err
	}
	if c.preview {
		return nil
	}
	if err := c.place(made, out); err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	if err := x.hidden.kept(out); err != nil {
		return err
	}
	if lost := len(in.Damage()); lost > 0 {
		return partialf("%s: %s could not be read and left out", name, count(lost, "place"))
	}
	return missing
}

// check finds what is wrong with the names of files.
func (c *redactCmd) check(name, out string) error {
	switch {
	case out == "-" && isTerminal(os.Stdout):
		return usagef("standard output is a terminal: a recording is not written to it")
	case out == "-" && c.json:
		return usagef("OUT is -: want a file with --json")
	case out == "" || out == "-":
		return nil
	}
	fi, err := os.Lstat(out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !fi.Mode().IsRegular():
		return fmt.Errorf("%s: there, and not a regular file", out)
	case !c.replace:
		return hintf(fmt.Errorf("%s: there already", out), "--force replaces it")
	}
	if src, err := os.Stat(name); err == nil && os.SameFile(src, fi) {
		return usagef("%s and %s are one file", name, out)
	}
	return nil
}

// place gives what was made its name, when it is on the disk.
func (c *redactCmd) place(made, out string) error {
	f, err := os.Open(made)
	if err != nil {
		return err
	}
	defer f.Close()
	if out == "-" {
		if err := c.stdout.Flush(); err != nil {
			return err
		}
		_, err = io.Copy(c.out, f)
		return err
	}
	if err := f.Sync(); err != nil {
		return pathless(err)
	}
	if c.replace {
		return pathless(os.Rename(made, out))
	}
	err = os.Link(made, out) // fails if something has the name by now
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOTSUP) {
		if _, err := os.Lstat(out); err == nil {
			return fs.ErrExist
		}
		err = os.Rename(made, out) // no links on this file system
	}
	return pathless(err)
}

// A hidden is how a redacted recording relates to the original.
type hidden struct {
	original *input
	r        *redact.Redactor
	inside   bool // files come from the bundle of the original alone
	data     *archive.DataFile
}

// kept returns an error if the policy left names where they are.
func (h *hidden) kept(out string) error {
	rep := h.r.Report()
	n := 0
	for _, o := range rep.Objects {
		if o.Outcome != "masked" {
			n++
		}
	}
	if stacks, raw, _ := h.r.Kept(); stacks || raw {
		return partialf("%s: bytes of memory were kept as they are: names may be in them", out)
	}
	if n > 0 {
		return partialf("%s: %s with names in them kept or left out", out, count(n, "file"))
	}
	return nil
}

// conceal writes the recording of in to the file that is called name, without
// what the policy is to replace, searches it for that, and returns it as an
// input that stands for in and is closed on its own.
func (a *app) conceal(ctx context.Context, in *input, p redact.Policy, name string) (*input, error) {
	a.knowHost(in.File, &p)
	m := a.meter("looking for names", 0)
	r, err := redact.New(ctx, in.File, p)
	if err != nil {
		return nil, err
	}
	m.Set("writing")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	x := &input{uid: in.uid, closers: []io.Closer{f}, hidden: &hidden{original: in, r: r, inside: in.bundle != nil}}
	if err := r.Write(ctx, f); err != nil {
		x.Close()
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		x.Close()
		return nil, err
	}
	when := in.Header().ModTime
	if !when.IsZero() { // perf shows it as the time of the recording
		if err := os.Chtimes(name, when, when); err != nil {
			x.Close()
			return nil, err
		}
	}
	m.Set("searching what was written")
	x.File, err = perfdata.New(f, st.Size(), "perf.data", perfdata.Options{Limits: a.limits, ModTime: when})
	if err != nil {
		x.Close()
		return nil, err
	}
	found, err := r.SearchRecording(ctx, x.File, f)
	if stacks, raw, _ := r.Kept(); err == nil && len(found) > 0 && !stacks && !raw {
		err = foundError("the recording", found)
	}
	if err != nil {
		x.Close()
		return nil, err
	}
	x.hidden.data = &archive.DataFile{ReaderAt: f, Name: "perf.data", Size: st.Size(), MTime: when.UTC().Truncate(time.Second), Include: true}
	return x, nil
}

// foundError says where a name was found. It does not say which.
func foundError(what string, found []redact.Found) error {
	where := found[0].Where
	return fmt.Errorf("%s: %s, %s: %w", what, count(len(found), "place"), where, redact.ErrFound)
}

// knowHost adds to a policy what is known of this host if it is the one that
// recorded.
func (a *app) knowHost(f *perfdata.File, p *redact.Policy) {
	host, err := os.Hostname()
	if err != nil || host == "" || f.Hostname() != host {
		return
	}
	if p.Users != redact.Keep {
		p.UserNames = append(p.UserNames, localUsers(filepath.Join(a.root, "/etc/passwd"))...)
	}
	if p.Containers != redact.Keep {
		for _, name := range []string{"/etc/machine-id", "/proc/sys/kernel/random/boot_id"} {
			if b, err := os.ReadFile(filepath.Join(a.root, name)); err == nil && len(b) < 100 {
				if id := strings.TrimSpace(string(b)); len(id) >= 32 {
					p.Also = append(p.Also, id)
				}
			}
		}
	}
}

// localUsers lists the people, not the services, in /etc/passwd.
func localUsers(passwd string) []string {
	f, err := os.Open(passwd)
	if err != nil {
		return nil
	}
	defer f.Close()
	var out []string
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		w := strings.Split(sc.Text(), ":")
		if len(w) < 3 {
			continue
		}
		if uid, err := strconv.ParseUint(w[2], 10, 32); err == nil && uid >= 1000 && uid < 65534 {
			out = append(out, w[0])
		}
	}
	return out
}

// bundle packs a redacted recording with its binaries, and searches the
// result. The first error is for what is missing from it.
func (c *redactCmd) bundle(ctx context.Context, x *input, name, out string) (missing, err error) {
	o, err := c.arc.planOptions("")
	if err != nil {
		return nil, err
	}
	o.Data = x.hidden.data
	pl, err := c.arc.plan(ctx, x, name, o)
	if err != nil {
		return nil, err
	}
	defer pl.Close()
	r, err := c.arc.pack(ctx, pl, out, archive.PackOptions{
		EncodeOptions: archive.EncodeOptions{Format: archive.Bundle}, Check: c.noNames(ctx, x.hidden, nil),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), out+": "))
	}
	c.printMissing(r.Manifest.Missing)
	return c.arc.incomplete(name, r), nil
}

// noNames returns what checks a bundle before it gets its name: it looks for
// names in every file of it, decompressed, but for the recording, which conceal
// has looked through, and in the manifest, which has the names of all.
func (a *app) noNames(ctx context.Context, h *hidden, pool *archive.Pool) func(r io.ReaderAt, size int64) error {
	return func(r io.ReaderAt, size int64) error {
		o := a.archiveOptions()
		if pool != nil {
			o.Pool = pool.Dir()
		}
		return a.searchBundle(ctx, h, r, size, o)
	}
}

func (a *app) searchBundle(ctx context.Context, h *hidden, r io.ReaderAt, size int64, o archive.OpenOptions) error {
	_, _, objects := h.r.Kept()
	a.meter("searching what was packed", 0)
	arc, err := archive.New(ctx, r, size, "bundle", o)
	if err != nil {
		return err
	}
	defer arc.Close()
	for _, o := range arc.Objects() {
		for _, f := range o.Files {
			if objects {
				continue
			}
			member, err := arc.OpenMember(f.Name)
			if err != nil {
				return err
			}
			found, err := h.r.Search(ctx, member, member.Size)
			member.Close()
			if err != nil {
				return err
			}
			if len(found) > 0 {
				return foundError(string(f.Name), found)
			}
		}
	}
	b, err := arc.Manifest().Encode()
	if err != nil {
		return err
	}
	found, err := h.r.Search(ctx, bytes.NewReader(b), int64(len(b)))
	if err == nil && len(found) > 0 {
		err = foundError("the manifest", found)
	}
	return err
}

// print prints what was replaced, or with --preview what would be.
func (c *redactCmd) print(name, out string, rep *redact.Report) error {
	switch {
	case c.json:
		return c.printJSON(rep)
	case c.preview:
		c.printPreview(rep)
		return c.stdout.Flush()
	case c.quiet:
		return nil
	}
	w := io.Writer(c.stdout)
	if out == "-" {
		w = c.stderr
	}
	for _, f := range rep.Fields {
		switch {
		case f.Values > 0:
			fmt.Fprintf(w, "%-18s %6d of %d replaced\n", f.Field, f.Replaced, f.Values)
		default:
			fmt.Fprintf(w, "%-18s %6d overwritten\n", f.Field, f.Places)
		}
	}
	c.printRest(w, rep)
	fmt.Fprintf(w, "%s looked for; none of them is in %s\n", count(len(rep.Names), "name"), escape.Name(c.target(out)))
	return nil
}

func (c *redactCmd) target(out string) string {
	if out == "-" {
		return "what was written"
	}
	return out
}

// printRest prints what was left out, and the files with names in them.
func (c *redactCmd) printRest(w io.Writer, rep *redact.Report) {
	for _, o := range rep.Objects {
		why := ""
		if o.Why != "" {
			why = ": " + o.Why
		}
		fmt.Fprintf(w, "%-18s %s: %s: %s%s\n", "file", escape.Name(o.Path), count(o.Names, "place"), o.Outcome, escape.Name(why))
	}
	for _, d := range rep.Dropped {
		fmt.Fprintf(w, "%-18s %6d left out\n", escape.Name(d.What), d.Count)
	}
}

// shown is how many texts of a field a preview shows without -v.
const shown = 20

func (c *redactCmd) printPreview(rep *redact.Report) {
	w := c.stdout
	most := shown
	if c.verbose > 0 {
		most = int(^uint(0) >> 1)
	}
	fmt.Fprintf(w, "# replaced everywhere: %s\n", count(len(rep.Names), "name"))
	for _, n := range rep.Names {
		where := ""
		if n.Common {
			where = "  (in texts, where it stands alone)"
		}
		fmt.Fprintf(w, "    %s → %s%s\n", escape.Name(n.Old), escape.Name(n.New), where)
	}
	for _, f := range rep.Fields {
		if f.Values == 0 {
			fmt.Fprintf(w, "# %s: %s overwritten\n", f.Field, count(uint64(f.Places), "name"))
			continue
		}
		fmt.Fprintf(w, "# %s: %d of %d replaced\n", f.Field, f.Replaced, f.Values)
		for i, v := range f.Changes {
			if i == most {
				fmt.Fprintf(w, "    … and %d more (-v)\n", len(f.Changes)-i)
				break
			}
			fmt.Fprintf(w, "    %s → %s\n", escape.Name(v.Old), escape.Name(v.New))
		}
		for i, s := range f.Kept {
			if i == most {
				fmt.Fprintf(w, "    … and %d more stay (-v)\n", len(f.Kept)-i)
				break
			}
			fmt.Fprintf(w, "    %s\n", escape.Name(s))
		}
	}
	c.printRest(w, rep)
}

// sourceOf is that of the files for a recording: in place of the original it
// is asked by redacted names, and gives files without names.
func (h *hidden) sourceOf(src store.Source) store.Source {
	if h.inside {
		return h.r.Source(h.original.bundle)
	}
	return h.r.Source(h.original.sources(src))
}

// given reports whether there is something but a policy.
func (r *redactFlags) given() bool {
	return len(r.rules)+len(r.also)+len(r.allow) > 0 || r.stacks+r.objects+r.key != ""
}

// remoteName returns what the name of a bundle of another host begins with: that
// host, unless it is to be redacted, which happens there.
func (c *captureCmd) remoteName() (string, error) {
	if c.redact.policy == "" {
		if c.redact.given() {
			return "", usagef("want --redact with what says how it is done")
		}
		return sshHost(c.remote.host), nil
	}
	if _, named := redact.Named(c.redact.policy); !named || c.redact.key != "" {
		return "", usagef("--redact with --ssh: want default or strict, and no --key: the other host does not have your files")
	}
	return "capture", nil
}
