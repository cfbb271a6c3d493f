package record

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if Waiting() {
		Wait()
	}
	os.Exit(m.Run())
}

// TestRun records a command, and perf reads it.
func TestRun(t *testing.T) {
	if _, err := exec.LookPath("perf"); err != nil {
		t.Skip("NOTICE: perf is not installed")
	}
	for name, o := range map[string]Options{
		"command": {Command: []string{"sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 7"}, Callgraph: Callgraph{Mode: CallgraphFP}},
		"all":     {All: true, Command: []string{"sleep", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "perf.data")
			f, err := os.OpenFile(out, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
			defer stop()
			st, err := Run(ctx, f, o, t.Logf)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", *st)
			b, err := exec.Command("perf", "report", "-i", out, "--stdio", "--no-children", "-g", "none").CombinedOutput()
			t.Logf("%v\n%s", err, b[:min(len(b), 1500)])
			if name == "command" && (st.Status != 7 || !strings.Contains(string(b), "sh ")) {
				t.Errorf("status %d", st.Status)
			}
		})
	}
}
