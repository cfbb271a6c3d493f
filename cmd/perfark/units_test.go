package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

const unitDir = "../../contrib/systemd"

// The units of contrib are what systemd takes, and give a service away no more
// than they say.
func TestUnits(t *testing.T) {
	perftest.NeedTool(t, "systemd-analyze")
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	list, err := filepath.Glob(filepath.Join(unitDir, "perfark-*"))
	if err != nil || len(list) != 3 {
		t.Fatalf("units %q, %v", list, err)
	}
	args := []string{"verify", "--man=no", "--generators=no"}
	for _, name := range list {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(to, []byte(strings.ReplaceAll(string(b), "/usr/local/bin/perfark", self)), 0o644); err != nil {
			t.Fatal(err)
		}
		args = append(args, to)
	}
	if res := perftest.Run(t, dir, nil, nil, "systemd-analyze", args...); res.Code != 0 || res.Stderr != "" {
		t.Errorf("%d\n%s%s", res.Code, res.Stdout, res.Stderr)
	}
	for _, name := range args[3:] {
		if !strings.HasSuffix(name, ".service") {
			continue
		}
		// 100 is 10.0, that of a service without bounds.
		if res := perftest.Run(t, dir, nil, nil, "systemd-analyze", "security", "--offline=true", "--threshold=30", "--no-pager", name); res.Code != 0 {
			t.Errorf("%d\n%s%s", res.Code, res.Stdout, res.Stderr)
		}
	}
}

// The command lines of the units are ones that perfark takes.
func TestUnitCommands(t *testing.T) {
	r := newRecorder(t)
	list, err := filepath.Glob(filepath.Join(unitDir, "*.service"))
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/perfark (.*)$`)
	for _, name := range list {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m := line.FindSubmatch(b)
		if m == nil {
			t.Fatalf("%s: no command", name)
		}
		dir := filepath.Join(r.dir, filepath.Base(name))
		args := strings.ReplaceAll(string(m[1]), "%S/perfark", dir)
		args = strings.ReplaceAll(args, "20s", "200ms") + " -e cpu-clock -C 0 --debug-info none --max-object-size 1M"
		args = strings.ReplaceAll(args, "--every 10m", "")
		args = strings.ReplaceAll(args, "--max-cpu 10", "")
		if res := perftest.Run(t, r.dir, nil, nil, r.bin, strings.Fields(args)...); res.Code != 0 && res.Code != 3 {
			t.Errorf("%s: %d\n%s", args, res.Code, res.Stderr)
		}
		if got, _ := filepath.Glob(filepath.Join(dir, "*.perfark")); len(got) != 1 {
			t.Errorf("%s: bundles %q", args, got)
		}
	}
}
