package perfark

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/perfark/perfark"

// ranks says which way imports point: a package imports nothing of a higher
// rank than its own. Packages that serve tests alone have none.
var ranks = map[string]int{
	"buildid": 0, "disasm/iced": 0, "internal/decode": 0, "internal/escape": 0, "internal/bzip2": 0, "internal/inflate": 0, "internal/ordered": 0, "internal/crew": 0,
	"perfdata": 1, "objfile": 1, "profile": 1, "store": 1, "dwarf": 1,
	"report": 2, "index": 2, "disasm": 2, "unwind": 2, "record": 2, "redact": 2,
	"session": 3, "symbol": 3, "archive": 3, "doctor": 3, "annotate": 3,
	"capture": 4, "browse": 4,
	"cmd/perfark": 5, "bench": 5, "bench/agree": 5, "bench/symbolize": 5, "demo/workload": 5,
}

// forbidden are packages that inputs from outside must not reach: the Go
// tree's own ELF and DWARF readers say that they are not hardened. Tests may
// use them to compare with.
var forbidden = map[string]string{
	"debug/elf":   "internal/decode and objfile are the hardened readers",
	"debug/dwarf": "it dies on hostile input",
	"debug/gosym": "it dies on hostile input",
	"unsafe":      "parsers do without",
}

func TestImports(t *testing.T) {
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if base := d.Name(); d.IsDir() && name != "." && (base == "testdata" || base[0] == '.') {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(name))
		rank, ranked := ranks[dir]
		if !ranked && path.Base(dir) != "perftest" && dir != "." {
			t.Errorf("%s: package %s has no rank: say in deps_test.go where it stands", name, dir)
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			if why, ok := forbidden[imp]; ok && !(imp == "unsafe" && dir == "record") { // system calls and memory shared with the kernel
				t.Errorf("%s imports %s: %s", name, imp, why)
			}
			to, ours := strings.CutPrefix(imp, module+"/")
			if ours && ranked && ranks[to] > rank {
				t.Errorf("%s (rank %d) imports %s (rank %d)", name, rank, to, ranks[to])
			}
			if ours && ranked && path.Base(to) == "perftest" {
				t.Errorf("%s imports %s, which is for tests", name, to)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
