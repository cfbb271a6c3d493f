package session

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
)

func load(t *testing.T, name string, o Options) *Result {
	t.Helper()
	f, err := perfdata.Open(name, perfdata.Options{Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := Load(context.Background(), f, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A frame is an address as perf script prints it.
type frameText struct {
	addr uint64
	dso  string
}

// scriptRow is a sample in the words of perf script.
type scriptRow struct {
	comm   string
	tid    int
	period uint64
	frames []frameText
}

func (f frameText) String() string { return fmt.Sprintf("%x(%s)", f.addr, f.dso) }

var (
	headLine  = regexp.MustCompile(`^ *(.*?) +(-?\d+) (?:\[(\d+)\])? +[\d.]+: +(\d+) +([^ ].*?): *(?:([0-9a-f]+) (.*) \((.*)\))?$`)
	frameLine = regexp.MustCompile(`^\t *([0-9a-f]+) (.*) \((.*)\)$`)
)

// parseScript reads the output of perf script without arguments. ok is false if some
// of it is not of the shape of plain samples.
func parseScript(t *testing.T, name string) (rows []scriptRow, ok bool) {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := sc.Text()
		if line == "" {
			continue
		}
		if m := frameLine.FindStringSubmatch(line); m != nil && len(rows) > 0 {
			a, _ := strconv.ParseUint(m[1], 16, 64)
			r := &rows[len(rows)-1]
			r.frames = append(r.frames, frameText{a, dsoText(m[3])})
			continue
		}
		m := headLine.FindStringSubmatch(line)
		if m == nil {
			return nil, false
		}
		r := scriptRow{comm: m[1]}
		r.tid, _ = strconv.Atoi(m[2])
		r.period, _ = strconv.ParseUint(m[4], 10, 64)
		if m[6] != "" {
			a, _ := strconv.ParseUint(m[6], 16, 64)
			r.frames = append(r.frames, frameText{a, dsoText(m[8])})
		}
		rows = append(rows, r)
	}
	if sc.Err() != nil {
		t.Fatal(sc.Err())
	}
	return rows, true
}

// dsoText is a name that perf script gives an object, made one: of modules it
// prints the path or the name.
func dsoText(s string) string {
	if m, ok := moduleName(s); ok {
		return m
	}
	return s
}

// maxStack is how much of a call chain perf script prints, less the markers
// that it counts as well.
const maxStack = 120

// TestCorpusScript compares every sample of the corpus with what perf script
// says about it: the name of the thread, and address and object of each
// frame.
func TestCorpusScript(t *testing.T) {
	dir := perftest.Corpus(t)
	compared := 0
	for _, rel := range perftest.CorpusFiles(t) {
		t.Run(filepath.Base(rel), func(t *testing.T) {
			script := filepath.Join(dir, "expected", strings.ReplaceAll(rel, "/", "~")+".script.txt.gz")
			want, ok := parseScript(t, script)
			if !ok || len(want) == 0 {
				t.Skip("no answer of perf script in its plain form")
			}
			r := load(t, filepath.Join(dir, rel), Options{Keep: KeepComm | KeepTID | KeepStacks})
			p := r.Profile
			type row struct {
				comm   string
				tid    int32
				frames string
			}
			counts := map[row][2]uint64{}
			chains := false
			for _, w := range want {
				chains = chains || len(w.frames) > 1
			}
			for _, w := range want {
				if len(w.frames) == 0 {
					t.Skip("perf could not unwind")
				}
				if !chains {
					w.frames[0].addr &= 0xfff // a mapping changes no more than what is above
				}
				k := row{w.comm, int32(w.tid), fmt.Sprint(w.frames[:min(len(w.frames), maxStack)])}
				c := counts[k]
				counts[k] = [2]uint64{c[0] + 1, c[1] + w.period}
			}
			for _, s := range p.Samples {
				th := p.Threads[s.Thread]
				var frames []frameText
				add := func(l profile.Location, raw bool) {
					f := frameText{l.Addr, "[unknown]"}
					if l.Object != profile.None {
						f.dso = dsoText(p.Objects[l.Object].Path)
					}
					if raw {
						f.addr &= 0xfff
					}
					frames = append(frames, f)
				}
				if s.Stack != profile.None && chains {
					for st := s.Stack; st != profile.None; st = p.Stacks[st].Caller {
						add(p.Locations[p.Stacks[st].Location], false)
					}
				} else {
					add(p.Locations[s.Location], true)
				}
				k := row{th.Comm, th.TID, fmt.Sprint(frames[:min(len(frames), maxStack)])}
				c := counts[k]
				counts[k] = [2]uint64{c[0] - s.Count, c[1] - s.Period}
			}
			var diffs []string
			for k, c := range counts {
				if c[0] != 0 {
					diffs = append(diffs, fmt.Sprintf("%+d samples: %s/%d %s", int64(c[0]), k.comm, k.tid, k.frames))
				}
			}
			slices.Sort(diffs)
			if len(diffs) > 0 {
				t.Errorf("%d rows differ from perf's (+ perf has more, - we have):\n%s", len(diffs), strings.Join(diffs[:min(len(diffs), 12)], "\n"))
			}
			compared += len(want)
		})
	}
	t.Logf("%d samples compared", compared)
}
