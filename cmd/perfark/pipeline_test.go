package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// The script in the documentation makes with the parts what capture makes, and
// leaves nothing else; it ends with the first part that fails.
func TestPipeline(t *testing.T) {
	r := newRecorder(t)
	perftest.NeedTool(t, "bash")
	script, err := filepath.Abs("../../contrib/pipeline.sh")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("../../docs/capture.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), "```\n"+string(text)+"```\n") {
		t.Error("docs/capture.md has another script than contrib/pipeline.sh")
	}
	out := filepath.Join(t.TempDir(), "a b")
	if err := os.Mkdir(out, 0o700); err != nil {
		t.Fatal(err)
	}
	env := append(perftest.Env(t.TempDir()), "PATH="+r.dir+":"+os.Getenv("PATH"))
	run := func(args ...string) perftest.Result {
		return perftest.Run(t, r.dir, env, nil, "bash", append([]string{script, filepath.Join(out, "app.perfark")}, args...)...)
	}
	if res := run("./burn", "60"); res.Code != 0 {
		t.Fatalf("%d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	if page, err := os.ReadFile(filepath.Join(out, "app.txt")); err != nil || !strings.Contains(string(page), "leaf") {
		t.Errorf("%v: %s", err, page)
	}
	if res := perftest.Run(t, r.dir, env, nil, r.bin, "verify", "--allow-missing", filepath.Join(out, "app.perfark")); res.Code != 0 {
		t.Errorf("verify: %d: %s", res.Code, res.Stderr)
	}
	if res := run("./burn", "60", "7"); res.Code != 7 {
		t.Errorf("%d: %s", res.Code, res.Stderr)
	}
	list, err := os.ReadDir(out)
	if err != nil || len(list) != 2 {
		t.Errorf("left: %v, %v", list, err)
	}
}
