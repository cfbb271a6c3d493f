package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
)

// idLines parses the lines of buildid-list, perf's or ours: sorted, without
// doubles, an id that old perf padded without its zeros, and the vDSO under its
// own name: perf 6.1 writes that of the reading host to a file and names it.
func idLines(t *testing.T, text string) []string {
	t.Helper()
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) < 41 || line[40] != ' ' {
			t.Errorf("line %q: not an id in 40 columns", line)
			continue
		}
		hex, name := strings.TrimSpace(line[:40]), line[41:]
		if hex != "" {
			id, err := buildid.Parse(hex)
			if err != nil {
				t.Errorf("line %q: %v", line, err)
			}
			hex = id.Trim().String()
		}
		if strings.HasPrefix(name, "/tmp/perf-vdso.so-") {
			name = "[vdso]"
		}
		out = append(out, hex+" "+name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestBuildIDListCorpus compares with what perf printed. Where the recording
// has a table of ids both print that; with hits perf 6.1 counts addresses of
// samples only, and we print more.
func TestBuildIDListCorpus(t *testing.T) {
	dir := perftest.Corpus(t)
	same, more := 0, 0
	for _, rel := range perftest.CorpusFiles(t) {
		for what, flags := range map[string][]string{"buildid-list.txt": nil, "buildid-list-with-hits.txt": {"--with-hits"}} {
			want, ok := perftest.Expected(t, rel, what)
			if !ok || want == "" {
				continue // perf refused the file, or found nothing hit
			}
			t.Run(filepath.Base(rel)+" "+what, func(t *testing.T) {
				code, stdout, stderr := runArgs(t, "", append([]string{"buildid-list", "-i", filepath.Join(dir, rel)}, flags...)...)
				if code != exitOK && code != exitPartial {
					t.Fatalf("exit status %d: %s", code, stderr)
				}
				got, want := idLines(t, stdout), idLines(t, want)
				if slices.Equal(got, want) {
					same++
					return
				}
				more++
				if flags == nil && hasTable(t, filepath.Join(dir, rel)) {
					t.Errorf("got  %q\nwant %q", got, want)
				}
				for _, w := range want {
					if !slices.Contains(got, w) {
						t.Errorf("perf has %q", w)
					}
				}
			})
		}
	}
	t.Logf("%d lists are equal, %d have what perf 6.1 leaves out", same, more)
}

func hasTable(t *testing.T, name string) bool {
	t.Helper()
	f, err := perfdata.Open(name, perfdata.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return len(f.BuildIDs()) > 0
}

// A recording with every kind of id, in text.
const idsRecording = `
mmap pid=-1 tid=0 start=0xffffffff81000000 len=0x1000000 pgoff=0xffffffff81000000 name=[kernel.kallsyms]_text
comm pid=10 tid=10 name=x time=1
mmap2 pid=10 tid=10 start=0x400000 len=0x1000 prot=5 flags=2 id=0123456789abcdef name=/bin/short time=2
mmap2 pid=10 tid=10 start=0x500000 len=0x1000 prot=5 flags=2 name="/bin/no id\x1b[31m" time=3
mmap2 pid=10 tid=10 start=0x600000 len=0x1000 prot=5 flags=2 id=ee*20 name=/lib/caller.so time=4
mmap2 pid=10 tid=10 start=0x700000 len=0x1000 prot=5 flags=2 id=dd*20 name=/lib/unused.so time=5
sample ip=0x400123 pid=10 tid=10 time=10 chain=user,0x400123,0x600456
sample ip=0x500123 pid=10 tid=10 time=11 chain=user,0x500123
`

func TestBuildIDList(t *testing.T) {
	kernel := strings.Repeat("ab", 20)
	event := "event cycles type=0 config=0 sample=+CALLCHAIN\n"
	noTable := perftest.File(t, event+idsRecording)
	table := perftest.File(t, event+idsRecording+`feature build_id {
	build_id pid=-1 id=ab*20 name=[kernel.kallsyms]
	build_id pid=-1 id=0123456789abcdef name=/bin/short
	build_id pid=-1 id=dd*20 name=/lib/unused.so
}
`)
	hits := "0123456789abcdef                         /bin/short\n" +
		"                                         /bin/no id\\x1b[31m\n" +
		strings.Repeat("ee", 20) + " /lib/caller.so\n"
	for _, tt := range []struct {
		args   []string
		stdout string
		stderr string
	}{
		{[]string{table}, kernel + " [kernel.kallsyms]\n0123456789abcdef                         /bin/short\n" + strings.Repeat("dd", 20) + " /lib/unused.so\n", ""},
		{[]string{"-i", noTable}, hits, "has no build id of 1 object:\nperfark:   /bin/no id\\x1b[31m\n"},
		{[]string{"-H", "-f", "-i", table}, hits, "has no build id of 1 object:\n"},
	} {
		code, stdout, stderr := runArgs(t, "", append([]string{"buildid-list"}, tt.args...)...)
		if code != exitOK || stdout != tt.stdout || !strings.Contains(stderr, tt.stderr) || tt.stderr == "" && stderr != "" {
			t.Errorf("buildid-list %q: status %d\n%s\nwant\n%s\nstderr:\n%s", tt.args, code, stdout, tt.stdout, stderr)
		}
	}
	data, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runArgs(t, string(data), "buildid-list", "--json", "-")
	if want := `"build_id": "0123456789abcdef"`; code != exitOK || !strings.Contains(stdout, want) {
		t.Errorf("JSON of standard input: status %d\n%s%s", code, stdout, stderr)
	}
}

// B10: the GNU id of a file is its id, of any length; the Go id comes second.
func TestBuildIDListELF(t *testing.T) {
	src := "int main(void) { return 0; }\n"
	for _, id := range []string{"0123456789abcdef", strings.Repeat("ab", 16), strings.Repeat("cd", 20), strings.Repeat("ef", 32)} {
		prog := perftest.CC(t, "prog", src, "-Wl,--build-id=0x"+id)
		if code, stdout, stderr := runArgs(t, "", "buildid-list", prog); code != exitOK || stdout != id+"\n" || stderr != "" {
			t.Errorf("status %d, %q, want %s\n%s", code, stdout, id, stderr)
		}
	}
	prog := perftest.CC(t, "none", src, "-Wl,--build-id=none")
	code, stdout, stderr := runArgs(t, "", "buildid-list", "-i", prog)
	if code != exitFailed || stdout != "" || !strings.HasPrefix(stderr, "perfark: buildid-list: "+prog+": has no build id\nperfark: hint: ") {
		t.Errorf("without an id: status %d, %q, %q", code, stdout, stderr)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// go tool buildid says the same, but is compiled first.
	perftest.NeedTool(t, "readelf")
	m := regexp.MustCompile(`\]\s+(\S*/\S+)\n`).FindStringSubmatch(perftest.Run(t, "", nil, nil, "readelf", "-p", ".note.go.buildid", exe).Stdout)
	if m == nil {
		t.Skip("skipped: the test has no Go id")
	}
	code, stdout, stderr = runArgs(t, "", "buildid-list", exe)
	goID := m[1]
	if all := stdout + stderr; !strings.Contains(all, goID) {
		t.Errorf("status %d: %q, want the Go id %s in it", code, all, goID)
	}
}

// perf finds what buildid-cache adds, and buildid-cache what perf adds; -M says
// what is missing.
func TestBuildIDCachePerf(t *testing.T) {
	perftest.NeedTool(t, "perf")
	id := strings.Repeat("5a", 20)
	prog := perftest.CC(t, "prog", "int main(void) { return 0; }\n", "-g", "-Wl,--build-id=0x"+id)
	home, dir := t.TempDir(), filepath.Join(t.TempDir(), "debug")
	real, err := filepath.EvalSymlinks(prog)
	if err != nil {
		t.Fatal(err)
	}
	ours := func(want int, args ...string) (string, string) {
		t.Helper()
		code, stdout, stderr := runArgs(t, "", append([]string{"--buildid-dir", dir, "buildid-cache"}, args...)...)
		if code != want {
			t.Fatalf("buildid-cache %q: status %d, want %d: %s", args, code, want, stderr)
		}
		return stdout, stderr
	}
	theirs := func(args ...string) string {
		t.Helper()
		r := perftest.PerfIn(t, t.TempDir(), home, nil, append([]string{"--buildid-dir", dir, "buildid-cache"}, args...)...)
		return r.Stdout
	}
	line := id + " " + real
	ours(exitOK, "-a", prog)
	if out := theirs("-l"); strings.TrimSpace(out) != line {
		t.Errorf("perf lists %q, want %q", out, line)
	}
	if out, _ := ours(exitOK, "-l"); !strings.HasPrefix(out, line+"\telf\t") || !strings.HasSuffix(out, "\tfull DWARF\n") {
		t.Errorf("we list %q", out)
	}
	theirs("-r", prog)
	if out, _ := ours(exitOK, "-l"); out != "" {
		t.Errorf("perf removed it, we list %q", out)
	}
	theirs("-a", prog)
	if out, _ := ours(exitOK, "-l"); !strings.HasPrefix(out, line+"\telf\t") {
		t.Errorf("perf added it, we list %q", out)
	}
	data := perftest.File(t, `comm pid=10 tid=10 name=x time=1
feature build_id {
	build_id pid=-1 id=5a*20 name=`+real+`
	build_id pid=-1 id=6b*20 name=/lib/missing.so
}
`)
	if out, _ := ours(exitOK, "-M", data); out != strings.Repeat("6b", 20)+" /lib/missing.so\n" {
		t.Errorf("missing: %q", out)
	}
	ours(exitOK, "-r", id)
	if out := theirs("-l"); out != "" {
		t.Errorf("perf still lists %q", out)
	}
	if _, stderr := ours(exitFailed, "-r", prog); !strings.Contains(stderr, "nothing with build id "+id) {
		t.Errorf("removed twice: %q", stderr)
	}
	// B09: without an id.
	bare := perftest.CC(t, "bare", "int main(void) { return 0; }\n", "-Wl,--build-id=none")
	if _, stderr := ours(exitOK, "-a", bare); !strings.Contains(stderr, "has no build id") {
		t.Errorf("without an id: %q", stderr)
	}
	ours(exitPartial, "-a", prog+",/no/such/file")
	ours(exitOK, "-u", prog, "-p", bare)
	ours(exitOK, "-P")
	if out, _ := ours(exitOK, "-l"); out != "" {
		t.Errorf("after -P: %q", out)
	}
}
