package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/internal/escape"
)

// An app is one run of perfark: its streams, its environment, and the options
// that several commands share. A command binds those it has with the add
// methods.
type app struct {
	stdin  io.Reader
	stdout *bufio.Writer // flushed by run
	stderr io.Writer
	out    *output
	env    environ
	args   []string // the command line, written out by perfArgs
	meters meters
	pager  *pager
	root   string // where the files of this host are, for what doctor says of it; "" for /, else for tests

	buildIDDir string // --buildid-dir, before or after the command; "" for the default
	noPager    bool

	input     string // -i; "" for an argument, else perf.data
	force     bool   // -f
	symbols   []string
	debugDirs []string
	noIndex   bool
	limits    decode.Limits
	archives  archive.Limits
	quiet     bool
	verbose   int
	json      bool
	copies    string   // a tree of files that were copied for this run alone; "" for none
	memory    int64    // bytes that this run may use; 0 for any number
	advised   []string // hints that were printed
	absent    []string // archives of which it was said what is absent
}

// addInputFlags binds -i, -f and the limits of what an input may cost.
func (a *app) addInputFlags(c *cobra.Command) {
	fs := c.Flags()
	fs.StringVarP(&a.input, "input", "i", "", "read `FILE`: a recording, a bundle, or - for standard input (default: perf.data)")
	fs.BoolVarP(&a.force, "force", "f", false, "accepted as perf has it; ownership is not checked")
	a.addLimitFlags(c)
}

// addLimitFlags binds the limits of what an input may cost.
func (a *app) addLimitFlags(c *cobra.Command) {
	fs := c.Flags()
	fs.Var((*sizeValue)(&a.limits.Bytes), "max-input-bytes", "decompress or allocate at most `SIZE` for an input (default: 4G)")
	fs.Int64Var(&a.limits.Steps, "max-input-steps", 0, "take at most `N` steps that input bytes do not pay for (default: 4294967296)")
	fs.IntVar(&a.limits.Depth, "max-input-depth", 0, "follow at most `N` levels of nesting (default: 64)")
}

// addArchiveLimitFlags binds the limits of what an archive may cost.
func (a *app) addArchiveLimitFlags(c *cobra.Command) {
	fs := c.Flags()
	fs.Var((*sizeValue)(&a.archives.MaxBytes), "max-bytes", "refuse archives with more than `SIZE` in them (default: 64G)")
	fs.IntVar(&a.archives.MaxFiles, "max-files", 0, "refuse archives with more than `N` members (default: 1000000)")
	fs.IntVar(&a.archives.MaxRatio, "max-ratio", 0, "refuse archives that grow more than `N` times when decompressed (default: 250)")
}

// addSymbolFlags binds where objects are looked for.
func (a *app) addSymbolFlags(c *cobra.Command) {
	fs := c.Flags()
	fs.StringArrayVar(&a.symbols, "symbols", nil, "take objects from `ARCHIVE|DIR` first; may be repeated")
	fs.StringArrayVar(&a.debugDirs, "debug-dir", nil, "look for debug files in `DIR` too; may be repeated")
}

// addOutputFlags binds -q, -v and --json.
func (a *app) addOutputFlags(c *cobra.Command) {
	fs := c.Flags()
	fs.BoolVarP(&a.quiet, "quiet", "q", false, "print less, and no progress")
	fs.CountVarP(&a.verbose, "verbose", "v", "print more; may be repeated")
	fs.BoolVar(&a.json, "json", false, "print JSON")
}

// inputName returns the file to read: that of -i, or the argument, or
// perf.data.
func (a *app) inputName(args []string) (string, error) {
	switch {
	case len(args) > 1:
		return "", usagef("one input, please: got %q and %q", args[0], args[1])
	case len(args) == 1 && a.input != "":
		return "", usagef("two inputs: -i %q and %q", a.input, args[0])
	case len(args) == 1:
		return args[0], nil
	case a.input != "":
		return a.input, nil
	}
	return "perf.data", nil
}

// notef prints a line on standard error: what a reader of the data should
// know, and no error. It is printed with -q too, as it may say that something
// is missing; names in it are escaped.
func (a *app) notef(format string, args ...any) {
	a.meters.stop()
	fmt.Fprintf(a.stderr, "perfark: %s\n", escape.Name(fmt.Sprintf(format, args...)))
}

// hintf prints a line of advice on standard error, but not with -q.
func (a *app) hintf(format string, args ...any) {
	if !a.quiet {
		a.notef("hint: "+format, args...)
	}
}

// verbosef prints a line on standard error with -v.
func (a *app) verbosef(format string, args ...any) {
	if a.verbose > 0 {
		a.notef(format, args...)
	}
}

// printJSON prints v, indented, on standard output.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.stdout.Write(escape.JSON(b.Bytes()))
	return err
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
