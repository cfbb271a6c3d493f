package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/perfark/perfark/archive"
	"github.com/perfark/perfark/capture"
	"github.com/perfark/perfark/internal/escape"
)

// A remoteFlags is what capture --ssh needs beside what it hands on.
type remoteFlags struct {
	host    string
	options []string
	command string
	binary  string
	sudo    bool
}

// addFlags binds the flags.
func (r *remoteFlags) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&r.host, "ssh", "", "capture on `[USER@]HOST`, with a copy of perfark that is there meanwhile, and bring the bundle here")
	fs.StringArrayVar(&r.options, "ssh-option", nil, "give `KEY=VALUE` to ssh as -o; may be repeated")
	fs.StringVar(&r.command, "ssh-command", "", "run `COMMAND` for ssh (default: $PERFARK_SSH, ssh)")
	fs.StringVar(&r.binary, "remote-binary", "", "copy `FILE`, a perfark for the machine of that host (default: this one)")
	fs.BoolVar(&r.sudo, "sudo", false, "capture as root there, by sudo -n")
}

// check refuses flags that mean nothing without --ssh.
func (r *remoteFlags) check(fs *pflag.FlagSet) error {
	if r.host == "" && fs.Changed("ssh") {
		return usagef("--ssh \"\": want a host")
	}
	for _, name := range []string{"ssh-option", "ssh-command", "remote-binary", "sudo"} {
		if r.host == "" && fs.Changed(name) {
			return usagef("--%s: want --ssh HOST", name)
		}
	}
	return nil
}

// notRemote are the flags of capture that cannot be handed on, and why.
var notRemote = map[string]string{
	"json":      "the bundle is elsewhere when it is printed; perfark verify --json prints what is in it",
	"keep-data": "the recording is in the bundle; perfark unpack takes it out",
	"dir":       unattended,
	"every":     unattended,
	"keep":      unattended,
	"max-bytes": unattended,
}

const unattended = "an unattended capture has its directory on the host that it records"

// remoteArgs returns what of the command line is for the other host.
func (c *captureCmd) remoteArgs(cmd *cobra.Command) ([]string, error) {
	_, words, err := cmd.Root().Find(c.args)
	if err != nil {
		return nil, err
	}
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.AddFlagSet(cmd.Flags())
	fs.SetInterspersed(false)
	var args []string
	err = fs.ParseAll(words, func(f *pflag.Flag, value string) error {
		switch f.Name {
		case "ssh", "ssh-option", "ssh-command", "remote-binary", "sudo", "output", "no-pager":
			return nil
		}
		if why, ok := notRemote[f.Name]; ok {
			return fmt.Errorf("not with --ssh: %s", why)
		}
		args = append(args, "--"+f.Name+"="+value)
		return nil
	})
	if err != nil {
		return nil, usagef("%s", err)
	}
	if rest := fs.Args(); len(rest) > 0 {
		args = append(append(args, "--"), rest...)
	}
	return args, nil
}

// runRemote captures on another host.
func (c *captureCmd) runRemote(ctx context.Context, cmd *cobra.Command) error {
	args, err := c.remoteArgs(cmd)
	if err != nil {
		return err
	}
	host, err := c.remoteName()
	if err != nil {
		return err
	}
	name := c.output
	switch {
	case name == "-" && isTerminal(os.Stdout):
		return hintf(usagef("standard output is a terminal: a bundle is not written to it"), "-o FILE")
	case name == "-":
		return c.remoteToStdout(ctx, args)
	case name == "":
		name = capture.BundleName("", host, time.Now())
	}
	var left, lost error // how the capture ended, with a bundle and without
	err = archive.Create(context.WithoutCancel(ctx), name, keepTemp, func(f *os.File) error {
		left, lost = c.fetch(ctx, args, f, name)
		return lost
	})
	switch {
	case lost != nil:
		return lost
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	}
	return left
}

// remoteToStdout captures on another host and writes the bundle to standard
// output, when all of it has come and is sound.
func (c *captureCmd) remoteToStdout(ctx context.Context, args []string) error {
	f, err := os.CreateTemp("", "perfark-")
	if err != nil {
		return err
	}
	defer keepTemp(f.Name())()
	defer os.Remove(f.Name())
	defer f.Close()
	left, err := c.fetch(ctx, args, f, "standard output")
	if err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.Copy(c.out, f); err != nil {
		return err
	}
	return left
}

// fetch runs the capture, and verifies the bundle that it wrote to f; name is
// what f will be called. left is the exit status of the capture, as an error,
// if there is a bundle.
func (c *captureCmd) fetch(ctx context.Context, args []string, f *os.File, name string) (left, err error) {
	host := c.remote.host
	m := c.meter("bundle of "+host, 0)
	defer c.meters.stop()
	var there atomic.Pointer[string]
	quiet := func() bool { return true }
	defer func() { quiet() }()
	r := &capture.Remote{
		Host: host, SSH: cmp.Or(c.remote.command, c.env.ssh), Options: c.remote.options, Sudo: c.remote.sudo, Binary: c.remote.binary,
		MaxSize: c.archives.MaxBytes,
		Message: func(line string) {
			if n := there.Load(); n != nil {
				line = strings.ReplaceAll(line, *n, name)
			}
			c.meters.stop()
			fmt.Fprintln(c.stderr, escape.Name(line))
		},
		Begun: func(n string) {
			there.Store(&n)
			patient.Store(true)
			quiet = context.AfterFunc(ctx, func() { c.notef("%s: the recording ends, and the bundle is waited for", host) })
		},
		Progress: m.At,
	}
	if r.Binary == "" {
		if r.Binary, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	status, size, err := r.Run(ctx, args, f)
	if machine, ok := errors.AsType[*capture.MachineError](err); ok {
		return nil, hintf(fmt.Errorf("%s: %w", host, err), "%s", otherBinary(machine))
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", host, err)
	}
	if status != 0 {
		left = &exitError{code: status}
	}
	if size == 0 {
		if left == nil {
			left = fmt.Errorf("%s: no bundle came", host)
		}
		return nil, left
	}
	if err := c.sound(context.WithoutCancel(ctx), f, size); err != nil {
		return nil, fmt.Errorf("%s: the bundle that came: %w", host, err)
	}
	return left, nil
}

// sound verifies the hashes of a bundle.
func (c *captureCmd) sound(ctx context.Context, f *os.File, size int64) error {
	arc, err := archive.New(ctx, f, size, "bundle", c.archiveOptions())
	if err != nil {
		return err
	}
	defer arc.Close()
	if _, _, ok := arc.Data(); !ok || len(arc.Absent()) > 0 {
		return errors.New("not all of it is there")
	}
	rep, err := arc.Verify(ctx, archive.VerifyOptions{Workers: c.arc.workers, Limits: c.limits})
	if err != nil {
		return err
	}
	if len(rep.Defects) > 0 {
		return fmt.Errorf("%s: %s", rep.Defects[0].Name, rep.Defects[0].What)
	}
	return nil
}

// otherBinary says which perfark a host needs.
func otherBinary(e *capture.MachineError) string {
	if e.System != "Linux" {
		return "perfark records on Linux"
	}
	arch := map[string]string{"x86_64": "amd64", "aarch64": "arm64", "i686": "386", "armv7l": "arm", "armv6l": "arm"}[e.Machine]
	if arch == "" {
		arch = e.Machine
	}
	return fmt.Sprintf("--remote-binary FILE, a perfark built with CGO_ENABLED=0 GOOS=linux GOARCH=%s", arch)
}

// sshHost returns the name of the host in what ssh takes for one.
func sshHost(dest string) string {
	if rest, ok := strings.CutPrefix(dest, "ssh://"); ok {
		dest, _, _ = strings.Cut(rest, "/")
		if i := strings.LastIndexByte(dest, ':'); i > strings.LastIndexByte(dest, ']') {
			dest = dest[:i]
		}
	}
	return strings.Trim(dest[strings.LastIndexByte(dest, '@')+1:], "[]")
}
