package session

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/perfark/perfark/buildid"
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
	headLine  = regexp.MustCompile(`^ *(.*?) +(-?\d+) (?:\[(\d+)\])? +[\d.]+: +(\d+) +([^ ].*?): *(?:([0-9a-f]+)(?: [^ (]\S*)? \((.*)\))?$`)
	frameLine = regexp.MustCompile(`^\t *([0-9a-f]+)(?: [^ (]\S*)? \((.*)\)$`)
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
	return scanScript(t, z)
}

func scanScript(t *testing.T, r io.Reader) (rows []scriptRow, ok bool) {
	t.Helper()
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := sc.Text()
		if line == "" {
			continue
		}
		if m := frameLine.FindStringSubmatch(line); m != nil && len(rows) > 0 {
			a, _ := strconv.ParseUint(m[1], 16, 64)
			r := &rows[len(rows)-1]
			r.frames = append(r.frames, frameText{a, dsoText(m[2])})
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
			r.frames = append(r.frames, frameText{a, dsoText(m[7])})
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

// compareScript compares a profile with what perf script says, as sets of
// samples.
func compareScript(t *testing.T, p *profile.Profile, want []scriptRow) {
	t.Helper()
	type row struct {
		comm   string
		tid    int32
		frames string
	}
	counts := map[row]int{}
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
		counts[row{w.comm, int32(w.tid), fmt.Sprint(w.frames[:min(len(w.frames), maxStack)])}]++
	}
	for _, s := range p.Samples {
		th := p.Threads[s.Thread]
		var frames []frameText
		add := func(l profile.Location, mask uint64) {
			f := frameText{l.Addr & mask, "[unknown]"}
			if l.Object != profile.None {
				f.dso = dsoText(p.Objects[l.Object].Path)
			}
			frames = append(frames, f)
		}
		if s.Stack != profile.None && chains {
			for st := s.Stack; st != profile.None; st = p.Stacks[st].Caller {
				add(p.Locations[p.Stacks[st].Location], ^uint64(0))
			}
		} else {
			add(p.Locations[s.Location], 0xfff)
		}
		counts[row{th.Comm, th.TID, fmt.Sprint(frames[:min(len(frames), maxStack)])}] -= int(s.Count)
	}
	var diffs []string
	for k, n := range counts {
		if n != 0 {
			diffs = append(diffs, fmt.Sprintf("%s/%d %s", k.comm, k.tid, k.frames))
			if n > 0 {
				diffs[len(diffs)-1] += " +"
			}
		}
	}
	slices.Sort(diffs)
	diffs = slices.DeleteFunc(diffs, func(d string) bool {
		// perf keeps the maps of the program before an exec, and finds
		// addresses in there that no longer are.
		if d, ok := strings.CutSuffix(d, " +"); ok {
			return slices.ContainsFunc(diffs, func(o string) bool { return staleOnly(d, o) })
		}
		return slices.ContainsFunc(diffs, func(o string) bool {
			o, ok := strings.CutSuffix(o, " +")
			return ok && staleOnly(o, d)
		})
	})
	if len(diffs) > 0 {
		t.Errorf("%d rows differ from perf's (+ is perf's):\n%s", len(diffs), strings.Join(diffs[:min(len(diffs), 12)], "\n"))
	}
}

// staleOnly reports whether the rows perf and ours differ only in frames that
// perf knows and we do not.
func staleOnly(perf, ours string) bool {
	p, o := strings.Split(perf, ") "), strings.Split(ours, ") ")
	if len(p) != len(o) || perf == ours {
		return false
	}
	for i := range p {
		if p[i] != o[i] && !strings.Contains(o[i], "([unknown]") {
			return false
		}
	}
	return true
}

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
			compareScript(t, r.Profile, want)
			checkSums(t, filepath.Join(dir, rel), r)
			compared += len(want)
		})
	}
	t.Logf("%d samples compared", compared)
}

// TestCorpusHits compares the objects that sample addresses hit with perf
// buildid-list --with-hits. perf 6.1 marks by sample address only.
func TestCorpusHits(t *testing.T) {
	dir := perftest.Corpus(t)
	compared := 0
	for _, rel := range perftest.CorpusFiles(t) {
		t.Run(filepath.Base(rel), func(t *testing.T) {
			text, ok := perftest.Expected(t, rel, "buildid-list-with-hits.txt")
			if !ok || strings.TrimSpace(text) == "" {
				t.Skip("no answer of perf")
			}
			want := map[string]string{} // by path
			for line := range strings.Lines(text) {
				line = strings.TrimSuffix(line, "\n")
				if len(line) < 42 || line[40] != ' ' {
					t.Skipf("perf says %q", line)
				}
				path := line[41:]
				if strings.HasPrefix(path, "/tmp/perf-vdso.so-") {
					path = "[vdso]" // perf's own machine's, which it takes instead
				}
				want[path] = strings.TrimSpace(line[:40])
			}
			for _, o := range []Options{{HitsOnly: true}, {}, {Keep: KeepStacks}} {
				r := load(t, filepath.Join(dir, rel), o)
				if r.Auxtrace {
					t.Skip("perf lists everything: it does not know what a trace hits")
				}
				got := map[string]buildid.ID{}
				for i, h := range r.Hit {
					if h&HitIP != 0 {
						got[r.Profile.Objects[i].Path] = r.Profile.Objects[i].BuildID
					}
				}
				for path, id := range want {
					have, ok := got[path]
					if !ok {
						t.Errorf("%+v: perf has a hit in %q, we have none", o, path)
						continue
					}
					delete(got, path)
					w, _ := buildid.Parse(id)
					if w != "" && !w.Match(have) {
						t.Errorf("%s: build id %v, want %v", path, have, w)
					}
					compared++
				}
				for path := range got {
					t.Errorf("%+v: we have a hit in %q, perf has none", o, path)
				}
			}
		})
	}
	t.Logf("%d objects compared", compared)
}

var reportRow = regexp.MustCompile(`^ +([0-9.]+)%  (.*?)  +(\S.*?)  +\[(.)\] 0x([0-9a-f]{16}) *$`)

// TestCorpusReport compares periods by thread name, object and address with
// the rows of perf report that stand in the corpus: the first ones of the
// first event.
func TestCorpusReport(t *testing.T) {
	dir := perftest.Corpus(t)
	compared := 0
	for _, rel := range perftest.CorpusFiles(t) {
		t.Run(filepath.Base(rel), func(t *testing.T) {
			text, ok := perftest.Expected(t, rel, "report60.txt")
			if !ok {
				t.Skip("no answer of perf")
			}
			if strings.Contains(rel, "invalid") {
				t.Skip("not a recording")
			}
			r := load(t, filepath.Join(dir, rel), Options{Keep: KeepComm | KeepStacks})
			if r.Branches > 0 {
				t.Skip("perf reports branches, not samples")
			}
			p := r.Profile
			type row struct {
				comm, dso, level string
				addr             uint64
			}
			var periods []map[row]uint64
			for range p.Events {
				periods = append(periods, map[row]uint64{})
			}
			for _, s := range p.Samples {
				l := p.Locations[s.Location]
				k := row{p.Threads[s.Thread].Comm, "[unknown]", string(l.Level), l.Addr}
				if l.Object != profile.None {
					k.dso = p.Objects[l.Object].Short
				}
				periods[s.Event][k] += s.Period
			}
			ev := -1
			event := regexp.MustCompile(`^# Samples: .* of event '(.*)'$`)
			for line := range strings.Lines(text) {
				line = strings.TrimSuffix(line, "\n")
				if m := event.FindStringSubmatch(line); m != nil {
					from := ev + 1
					if ev = slices.IndexFunc(p.Events[from:], func(e profile.Event) bool { return e.Name == m[1] }); ev >= 0 {
						ev += from
					}
				}
				m := reportRow.FindStringSubmatch(line)
				if m == nil || ev < 0 {
					continue
				}
				addr, _ := strconv.ParseUint(m[5], 16, 64)
				k := row{m[2], m[3], m[4], addr}
				if k.comm == "" {
					continue
				}
				period := periods[ev][k]
				if period == 0 && len(k.comm) == 7 {
					// perf made the column before the thread had its name.
					for o, n := range periods[ev] {
						if strings.HasPrefix(o.comm, k.comm) && o.dso == k.dso && o.addr == k.addr {
							period += n
						}
					}
				}
				got := fmt.Sprintf("%.2f", 100*float64(period)/float64(p.Events[ev].Period))
				if got != m[1] {
					t.Errorf("%v: %s %%, want %s %%", k, got, m[1])
				}
				compared++
			}
		})
	}
	t.Logf("%d rows compared", compared)
}
