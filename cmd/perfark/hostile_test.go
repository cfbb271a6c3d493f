package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/perfark/perfark/internal/perftest"
)

// hostileNames are names of threads and files as U1 to U6 have them, quoted.
var hostileNames = []string{
	`\x1b]0;t\a\x1b[2J\x1b]52;c;aGk=\a`, `\x1b]8;;http://x\x1b\\y`, `\x1bPq#0\x1b\\`, `a\rb\bc`, `\x9b31m\xc2\x9b`, // U1
	`</script><script>alert(1)`, `<img onerror=x>`, `\"'` + "`" + `{{x}}${y}`, `]]><!--\u2028`, // U2
	`a\x00b`, `\xef\xbf\xbe\xed\xa0\x80`, // U3
	`\u202egpj`, `a\u200bb\u2060`, `a\xf3\xa0\x81\x81`, `e` + strings.Repeat(`\u0301`, 6), // U4
	`=HYPERLINK(1)`, `+cmd|x`, `-1`, `@SUM`, `\"q\",;\n`, `\tx`, // U5
	`a;b c 7`, `x 12`, // U6
}

// U1 to U6, UI-4: names from outside do not reach any output of any command as
// they are, and no sample is lost for its names.
func TestHostileNames(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PERF_CONFIG", "/dev/null")
	var text strings.Builder
	for i, name := range hostileNames {
		pid, at := 100+i, 0x400000+i<<16
		file := strings.ReplaceAll(name, `\x00`, "") // names end there
		fmt.Fprintf(&text, "comm pid=%d tid=%d name=\"%s\" time=1\n", pid, pid, file)
		fmt.Fprintf(&text, "mmap2 pid=%d tid=%d start=%#x len=0x1000 prot=5 flags=2 name=\"/no/%s\" time=2\n", pid, pid, at, file)
		fmt.Fprintf(&text, "sample ip=%#x pid=%d tid=%d time=3 period=1 chain=user,%#x,%#x\n", at+0x123, pid, pid, at+0x123, at+0x234)
	}
	data := perftest.File(t, "event cycles sample=+CALLCHAIN\n"+text.String()+"finished_round\n")
	for _, args := range [][]string{
		{"report", "-g", "none", "--no-children"},
		{"report", "--sort", "comm,dso,sym,srcline,srcfile,pid,tid", "-v"},
		{"report", "--hierarchy", "--sort", "comm,dso,sym"},
		{"report", "-g", "folded"},
		{"report", "-t", ",", "-g", "none", "--no-children"},
		{"report", "-t", ";", "-g", "none", "--no-children"},
		{"report", "--json"},
		{"report", "--tasks"},
		{"report", "--mmaps"},
		{"script", "-G"},
		{"script"},
		{"script", "--show-task-events", "--show-mmap-events"},
		{"script", "-F", "comm,tid,ip,sym,dso,symoff,srcline"},
		{"doctor"},
		{"doctor", "--json"},
		{"archive", "--dry-run", "--all", "-v"},
		{"archive", "--dry-run", "--all", "--json"},
		{"buildid-list"},
		{"header"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			code, out, errs := runArgs(t, "", append(args, "-i", data)...)
			if code != 0 && args[0] != "archive" {
				t.Errorf("exit status %d: %s", code, errs)
			}
			for _, s := range []string{out, errs} {
				if !utf8.ValidString(s) {
					t.Errorf("no UTF-8: %q", s)
				}
				for _, r := range s {
					if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x2028 && r <= 0x202e || r >= 0x200b && r <= 0x200f || r == 0x2060 || r == 0xfffe || r == 0xe0041 {
						t.Fatalf("%q is in %q", r, s)
					}
				}
			}
			switch {
			case strings.Contains(out, `{"schema"`) || args[len(args)-1] == "--json":
				if !json.Valid([]byte(out)) {
					t.Errorf("no JSON: %s", out)
				}
			case len(args) == 4 && args[3] == "--no-children":
				if n := strings.Count(rows(out), "%"); n < len(hostileNames) {
					t.Errorf("%d rows for %d names:\n%s", n, len(hostileNames), out)
				}
			case len(args) > 4 && args[1] == "-t":
				checkSheet(t, rows(out), rune(args[2][0]))
			case args[0] == "script" && len(args) == 2:
				if n := strings.Count(out, "\n"); n != len(hostileNames) {
					t.Errorf("%d lines for %d samples:\n%s", n, len(hostileNames), out)
				}
			}
		})
	}
	// A bundle of it says the same of itself.
	at := filepath.Join(t.TempDir(), "x.perfark")
	runArgs(t, "", "archive", "-q", "--all", "--allow-missing", "-i", data, "-o", at)
	_, out, errs := runArgs(t, "", "verify", "-v", at)
	if strings.ContainsAny(out+errs, "\x1b\r\a\u202e\u2028\u200b") {
		t.Errorf("verify: %q, %q", out, errs)
	}
}

// checkSheet checks U5, UI-5: a spreadsheet finds a row for each sample, with
// the same number of cells, and no cell is a formula.
func checkSheet(t *testing.T, text string, sep rune) {
	t.Helper()
	r := csv.NewReader(strings.NewReader(text))
	r.Comma = sep
	r.LazyQuotes = true
	r.TrimLeadingSpace = false
	all, err := r.ReadAll()
	if err != nil || len(all) != len(hostileNames) {
		t.Errorf("%d rows for %d names, %v:\n%s", len(all), len(hostileNames), err, text)
	}
	for _, row := range all {
		for _, cell := range row {
			if cell != "" && strings.TrimSpace(cell) != "-1" && strings.ContainsRune("=+-@\t\r\"", rune(cell[0])) { // -1 is a number
				t.Errorf("the cell %q is a formula", cell)
			}
		}
	}
}
