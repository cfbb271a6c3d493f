// Command perfark archives, carries and reads Linux perf profiles.
//
// Each command is a file here: a constructor that binds flags to an options
// struct and one function that opens files, calls one package and prints.
// Only this package prints, exits and reads the environment.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/internal/crew"
	"github.com/perfark/perfark/internal/escape"
)

// commands are the constructors of all commands, in the order of the help.
var commands = []func(*app) *cobra.Command{
	newRecordCmd,
	newCaptureCmd,
	newArchiveCmd,
	newRedactCmd,
	newVerifyCmd,
	newUnpackCmd,
	newBundleCmd,
	newBuildIDListCmd,
	newBuildIDCacheCmd,
	newReportCmd,
	newAnnotateCmd,
	newDoctorCmd,
	newScriptCmd,
	newHeaderCmd,
	newEvlistCmd,
	newManCmd,
	newVersionCmd,
}

func main() {
	name := filepath.Base(os.Args[0])
	args := os.Args[1:]
	if name == "perf-archive" { // perf runs its own archive command by this name
		args = append([]string{"archive"}, args...)
	}
	if os.Getenv("GOGC") == "" {
		// Most of the memory is a few large tables without pointers: to look
		// through them costs little, to let it double costs a lot.
		debug.SetGCPercent(40)
	}
	ctx, stop := notify()
	code := run(ctx, args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs perfark with args, which begin with the name of the command, and
// returns its exit status: one of the exit constants, or 128 and the number of
// the signal that ended it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &output{w: stdout, cancel: cancel}
	a := &app{
		stdin:  stdin,
		stdout: bufio.NewWriterSize(out, 64<<10),
		stderr: stderr,
		out:    out,
		env:    readEnv(),
	}
	defer func() {
		if p := recover(); p != nil {
			a.meters.stop()
			code = a.bug(p, debug.Stack())
		}
	}()
	root := newRootCmd(a)
	a.args = perfArgs(root, args)
	root.SetArgs(a.args)
	cmd, err := root.ExecuteContextC(ctx)
	a.meters.stop()
	if ferr := a.stdout.Flush(); err == nil || out.err != nil {
		err = ferr
	}
	if perr := a.stopPager(); perr != nil {
		err = perr
	}
	return a.fail(ctx, cmd, err)
}

// parseBool is how strconv says that a flag is on or off.
var parseBool = regexp.MustCompile(`strconv\.ParseBool: parsing .*: invalid syntax$`)

// parseNumber is how strconv says that a flag wants a number.
var parseNumber = regexp.MustCompile(`strconv\.Parse\w+: parsing .*: (invalid syntax|value out of range)$`)

func newRootCmd(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "perfark",
		Short: "archive, carry and read Linux perf profiles",
		Long: `perfark finds the exact binaries behind every frame of a perf recording by their
Build IDs, proves that the set is complete, and packs it into one archive. On any
other machine perfark, or stock perf, opens it and every frame has its name.

Exit status: 0 complete, 1 failed, 2 wrong usage, 3 done but partial.`,
		Example: `  perf record -g -- ./server
  perfark archive perf.data                # writes perf.data.tar.bz2
  perfark unpack perf.data.tar.bz2         # on another machine
  perfark report -i perf.data`,
		Version:            version(),
		SilenceErrors:      true,
		SilenceUsage:       true,
		DisableSuggestions: true, // fail prints the suggestion as a hint
		Args:               cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			cmd.SetOut(a.stderr)
			if err := cmd.Usage(); err != nil {
				return err
			}
			return &exitError{code: exitUsage}
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("perfark {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return usagef("%s", parseNumber.ReplaceAllString(parseBool.ReplaceAllString(err.Error(), "not true or false"), "not a number"))
	})
	root.PersistentFlags().StringVar(&a.buildIDDir, "buildid-dir", "", "cache of objects by Build ID in `DIR` (default: buildid.dir of perfconfig, ~/.debug)")
	root.PersistentFlags().BoolVar(&a.noPager, "no-pager", false, "do not run a pager")
	for _, newCmd := range commands {
		c := newCmd(a)
		c.DisableFlagsInUseLine = true
		root.AddCommand(c)
	}
	root.SetHelpCommand(newHelpCmd())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	noOtherShell(root)
	setUsage(root)
	return root
}

// noOtherShell has the command completion refuse what is no shell it knows.
func noOtherShell(root *cobra.Command) {
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args = cobra.ArbitraryArgs
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown shell %q", args[0])
			}
			return c.Help()
		}
	}
}

func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:                   "help [COMMAND]",
		Short:                 "print the help of a command",
		Example:               "  perfark help report",
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			cmd, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(c.Root(), args[0])
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// unknownCommand says that there is no command name, and which is near it.
func unknownCommand(root *cobra.Command, name string) error {
	root.SuggestionsMinimumDistance = 2
	err := usagef("unknown command %q", name)
	if near := root.SuggestionsFor(name); len(near) > 0 {
		return hintf(err, "did you mean %q?", near[0])
	}
	return hintf(err, "perfark help lists the commands")
}

// fail prints what err says and returns the exit status for it.
func (a *app) fail(ctx context.Context, cmd *cobra.Command, err error) int {
	if err == nil {
		return exitOK
	}
	if done, ok := errors.AsType[*exitError](err); ok && done.err == nil && patient.Load() {
		return done.code
	}
	if sig, ok := errors.AsType[*signalError](context.Cause(ctx)); ok && (!patient.Load() || errors.Is(err, context.Canceled)) {
		err = sig
	} else if errors.Is(err, syscall.EPIPE) && a.out.err != nil {
		return 128 + int(syscall.SIGPIPE) // the reader of our output has gone: not worth a word
	}
	prefix := "perfark: "
	if cmd != nil && cmd.HasParent() {
		prefix += strings.TrimPrefix(cmd.CommandPath(), "perfark ") + ": "
	}
	for msg := range strings.SplitSeq(err.Error(), "\n") { // errors.Join has a line for each
		if msg != "" {
			fmt.Fprintf(a.stderr, "%s%s\n", prefix, escape.Name(msg))
		}
	}
	for _, h := range hints(err) {
		fmt.Fprintf(a.stderr, "perfark: hint: %s\n", escape.Name(h))
	}
	return exitCode(err)
}

// bug reports a panic, which is a fault of perfark whatever the input was.
func (a *app) bug(p any, stack []byte) int {
	if c, ok := p.(*crew.Panic); ok {
		stack = c.Stack
	}
	fmt.Fprintf(a.stderr, "perfark: internal error: %s\n", escape.Name(fmt.Sprint(p)))
	if a.verbose > 0 {
		fmt.Fprintf(a.stderr, "%s", escape.Lines(string(stack)))
	} else {
		fmt.Fprintln(a.stderr, "perfark: hint: this is a fault of perfark; -v shows the place")
	}
	return exitFailed
}

// An output is standard output. It keeps the first error and cancels the
// command then, so that nobody goes on working for a reader who has left.
type output struct {
	w      io.Writer
	cancel context.CancelCauseFunc
	err    error
}

func (o *output) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	n, err := o.w.Write(p)
	if err != nil {
		o.err = fmt.Errorf("standard output: %w", pathless(err))
		o.cancel(o.err)
		return n, o.err
	}
	return n, nil
}

// pathless strips the operation and name that os adds: the caller names the
// file better.
func pathless(err error) error {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err
	}
	if le, ok := errors.AsType[*os.LinkError](err); ok {
		return le.Err
	}
	return err
}
