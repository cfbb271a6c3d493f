//go:build linux

package store

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/perftest"
)

// perf runs perf with an empty home and returns its output; what it writes to
// standard error goes to the log.
func perf(t *testing.T, home string, args ...string) string {
	t.Helper()
	cmd := exec.Command("perf", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LC_ALL=C", "DEBUGINFOD_URLS="}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Logf("perf %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// recorded records a program that is busy for a moment.
func recorded(t *testing.T, home string) (data, prog string) {
	t.Helper()
	for _, tool := range []string{"perf", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: no %s", tool)
		}
	}
	dir := t.TempDir()
	src := write(t, dir+"/spin.c", []byte(`volatile unsigned long sink;
__attribute__((noinline)) void hot_leaf(unsigned long n) { for (unsigned long i = 0; i < n; i++) sink += i * i; }
int main(void) { hot_leaf(200000000UL); return 0; }
`))
	prog = dir + "/spin"
	if out, err := exec.Command("gcc", "-g", "-O1", "-Wl,--build-id=sha1", "-o", prog, src).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v: %s", err, out)
	}
	data = dir + "/perf.data"
	perftest.Shared(t)
	perf(t, home, "record", "-q", "-e", "cpu-clock:u", "-F", "499", "-o", data, "--", prog)
	if _, err := os.Stat(data); err != nil {
		t.Skip("skipped: perf may not record here")
	}
	return data, prog
}

// listed returns the ids that perf lists, by name.
func listed(out string) map[string]buildid.ID {
	ids := map[string]buildid.ID{}
	for line := range strings.Lines(out) {
		hex, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if id, err := buildid.Parse(hex); err == nil {
			ids[strings.TrimSpace(name)] = id
		}
	}
	return ids
}

func kindOf(name string) Kind {
	switch {
	case isKernel(name):
		return Kallsyms
	case isVDSO(name):
		return VDSO
	}
	return ELF
}

// What perf put into its cache is found, and perf finds what we put into ours.
func TestPerfCache(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: -short")
	}
	home := t.TempDir()
	data, prog := recorded(t, home)
	ids := listed(perf(t, home, "buildid-list", "-i", data))
	if ids[prog] == "" {
		t.Skip("skipped: perf recorded no id of the program")
	}
	theirs := Cache(home + "/.debug")
	ours := Cache(t.TempDir() + "/debug")
	for name, id := range ids {
		k := Key{ID: id, Kind: kindOf(name), Path: name}
		f, err := theirs.Get(t.Context(), k)
		if err != nil {
			t.Errorf("in perf's cache: %v", err)
			continue
		}
		if _, err := ours.Put(t.Context(), k, f, PutOptions{}); err != nil {
			t.Error(err)
		}
		f.Close()
	}
	// Same places, same links.
	for name, id := range ids {
		a, err := os.Readlink(filepath.Join(theirs.Dir(), linkName(id.String())))
		b, err2 := os.Readlink(filepath.Join(ours.Dir(), linkName(id.String())))
		if err != nil || err2 != nil || a != b {
			t.Errorf("%s: perf links to %q, we to %q", name, a, b)
		}
	}
	// perf lists it, as the program is where it was.
	if got := listed(perf(t, home, "--buildid-dir", ours.Dir(), "buildid-cache", "-l")); got[prog] != ids[prog] {
		t.Errorf("perf buildid-cache -l: %v", got)
	}
	// perf names the function from our cache alone.
	if err := os.Rename(prog, prog+".hidden"); err != nil {
		t.Fatal(err)
	}
	report := func(dir string) string {
		return perf(t, t.TempDir(), "--buildid-dir", dir, "report", "-i", data, "--stdio", "--no-children")
	}
	named := regexp.MustCompile(`(?m)%\s+spin\s+spin\s+\[\.\] hot_leaf`)
	if out := report(ours.Dir()); !named.MatchString(out) {
		t.Errorf("perf report with our cache:\n%s", out)
	}
	// perf removes by path what we wrote, and adds to our tree what we find.
	perf(t, home, "--buildid-dir", ours.Dir(), "buildid-cache", "-p", prog)
	testNone(t, ours, Key{ID: ids[prog], Kind: ELF, Path: prog})
	if out := report(ours.Dir()); named.MatchString(out) {
		t.Error("perf still names the function")
	}
	if err := os.Rename(prog+".hidden", prog); err != nil {
		t.Fatal(err)
	}
	perf(t, home, "--buildid-dir", ours.Dir(), "buildid-cache", "-a", prog)
	testSource(t, ours, Key{ID: ids[prog], Kind: ELF, Path: prog}, mustRead(t, prog))
	list, err := ours.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Problem != "" || !e.Linked {
			t.Errorf("%+v", e)
		}
	}
	// We remove what perf added.
	if _, err := ours.Remove(t.Context(), RemoveOptions{All: true}); err != nil {
		t.Fatal(err)
	}
	if got := perf(t, home, "--buildid-dir", ours.Dir(), "buildid-cache", "-l"); got != "" {
		t.Errorf("perf still lists:\n%s", got)
	}
}

// An image with symbols takes the link from kallsyms, and takes them along:
// perf and we find both.
func TestPutKernelImage(t *testing.T) {
	id := testID(0x6b, 20)
	c := Cache(t.TempDir())
	syms := []byte("ffffffff81000000 T _stext\n")
	image := testELF{id: id, text: "kernel", symtab: true}.bytes()
	bare := testELF{id: id, text: "kernel"}.bytes()
	put(t, c, Key{ID: id, Kind: Kallsyms, Path: "[kernel.kallsyms]"}, syms, PutOptions{})
	if res, err := put(t, c, Key{ID: id, Kind: ELF, Path: "/boot/vmlinuz"}, bare, PutOptions{}); err != nil || res.Linked {
		t.Errorf("an image without symbols: %+v, %v", res, err)
	}
	res, err := put(t, c, Key{ID: id, Kind: ELF, Path: "/boot/vmlinux"}, image, PutOptions{})
	if err != nil || !res.Linked {
		t.Fatalf("Put: %+v, %v", res, err)
	}
	link := c.Dir() + "/" + linkName(id.String())
	for name, want := range map[string][]byte{"elf": image, "kallsyms": syms} {
		if got := mustRead(t, link+"/"+name); string(got) != string(want) {
			t.Errorf("%s behind the link: %q", name, got)
		}
	}
	testSource(t, c, Key{ID: id, Kind: Kallsyms, Path: "[kernel.kallsyms]"}, syms)
	testSource(t, c, Key{ID: id, Kind: ELF, Path: "[kernel.kallsyms]"}, image)
}
