package doctor

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// A Recording is a recording that was loaded with its stacks and resolved.
type Recording struct {
	File    *perfdata.File
	Session *session.Result
	Outcome *symbol.Outcome
	Source  store.Source // of the objects' code; nil for none

	Name      string   // as the user would type it; "" if it cannot be read again
	Host      *Host    // this host
	Here      bool     // it was recorded on this host, in this boot
	OS        OS       // of the host that recorded, if that is known
	Elsewhere []string // caches of other users that Source cannot look into
	Caller    string   // who runs this, if not root: "nobody (uid 65534)"
}

// A recordingDoctor is one run of Recording.Findings.
type recordingDoctor struct {
	*Recording
	p     *profile.Profile
	list  []Finding
	total uint64         // samples
	pkgs  map[string]pkg // by path: the packages that own objects on this host
	lack  []pkg          // those whose debug files would help
}

// Findings says what the recording lacks, most samples first. The error is
// that of the context.
func (r *Recording) Findings(ctx context.Context) ([]Finding, error) {
	d := &recordingDoctor{Recording: r, p: r.Session.Profile}
	for i := range d.p.Samples {
		d.total += d.p.Samples[i].Count
	}
	if d.Host == nil {
		d.Host = &Host{}
	}
	if d.Here {
		d.OS = d.Host.OS
	} else if d.OS == (OS{}) {
		d.OS = OSOfRelease(d.File.OSRelease())
	}
	d.findPackages()
	d.objects()
	if err := d.chains(ctx); err != nil {
		return nil, err
	}
	d.whole()
	Sort(d.list)
	return d.list, nil
}

// add adds a finding and returns it, to be added to.
func (d *recordingDoctor) add(f Finding) *Finding {
	d.list = append(d.list, f)
	return &d.list[len(d.list)-1]
}

// findPackages looks up which packages own the objects that lack something.
// They are asked only if the file here is that of the recording.
func (d *recordingDoctor) findPackages() {
	var paths []string
	for i := range d.Outcome.Objects {
		x := &d.Outcome.Objects[i]
		o := &d.p.Objects[i]
		if x.Frames == 0 || x.Quality == objfile.FullDWARF || o.Kind != profile.KindFile || !strings.HasPrefix(o.Path, "/") {
			continue
		}
		if d.Here || d.Host.carries(o.Path, o.BuildID) {
			paths = append(paths, o.Path)
		}
	}
	if len(paths) > 0 {
		d.pkgs = d.Host.owners(paths)
	}
}

// objects says for each object why frames have no names, and which names rest
// on nothing but a path.
func (d *recordingDoctor) objects() {
	for _, x := range d.Outcome.Missing() {
		d.unnamed(&x)
	}
	for i := range d.Outcome.Objects {
		x := &d.Outcome.Objects[i]
		if x.Unverified && x.FramesNamed > 0 {
			f := d.add(Finding{Kind: Unverified, Level: Risk, Object: d.p.Objects[i].Path, Samples: x.Samples,
				What: "the recording has no build id for it; the names are of the file that is at its path (" + strings.Join(x.Origins, ", ") + "), which may be another build"})
			f.fix(d.again("--buildid-mmap"), d.onHost())
		}
	}
	d.lines()
	if len(d.lack) > 1 {
		f := Finding{Kind: Symbols, Level: Note, What: "the debug packages of all of these at once"}
		f.fix(d.Host.install(d.lack...), "")
		d.list = append(d.list, f)
	}
}

// unnamed explains the unnamed frames of an object.
func (d *recordingDoctor) unnamed(x *symbol.ObjectOutcome) {
	f := Finding{Kind: Symbols, Level: Loss, Samples: x.SamplesUnnamed, Unnamed: x.Frames - x.FramesNamed, Addresses: x.Frames}
	obj := &profile.Object{}
	if x.Object >= 0 {
		obj = &d.p.Objects[x.Object]
		f.Object, f.ID = cmp.Or(obj.Path, obj.Short), obj.BuildID
	}
	f.What = string(x.Reason)
	if x.Detail != "" {
		f.What += ": " + x.Detail
	}
	switch x.Reason {
	case symbol.Stripped, symbol.Exported, symbol.OnlyGo:
		d.debugFiles(&f, obj)
		f.fix("perfark buildid-cache --update UNSTRIPPED-FILE", "if you have the file as it was before it was stripped")
	case symbol.NoRuntime:
		d.program(&f, obj)
	case symbol.NotFound:
		d.absent(&f, obj)
	case symbol.NoModule:
		f.Kind = Kernel
		d.absent(&f, obj)
	case symbol.NoBuildID:
		f.Kind = BuildIDs
		d.withoutID(&f, x, obj)
	case symbol.Mismatch, symbol.Replaced, symbol.Ambiguous:
		f.fix("perfark buildid-cache --add COPY-OF-THE-FILE-THAT-RAN", "")
		f.fix(d.again("--buildid-mmap")+" && "+d.archive(), cmp.Or(d.onHost(), "the next time: it takes the ids of the files that run, not of those that are there at the end"))
	case symbol.Deleted:
		f.Kind = Namespace
		if d.alive(x.Object) {
			f.fix(d.archive(), cmp.Or(d.onHost(), "while the program runs"))
		}
		f.fix("perfark buildid-cache --add COPY-OF-THE-FILE-THAT-RAN", "")
		f.fix(d.again("--buildid-mmap")+" && "+d.archive(), "the next time, while the program runs")
	case symbol.Memfd:
		f.Kind = Namespace
		f.fix(d.again("--buildid-mmap")+" && "+d.archive(), cmp.Or(d.onHost(), "while the program runs: its file can be read from the process only"))
	case symbol.NotPermitted:
		f.Kind = OtherUser
		f.fix("sudo "+d.archive(), d.onHost())
	case symbol.Restricted, symbol.Hidden:
		f.Kind = KernelAddrs
		f.fix("sudo sysctl kernel.kptr_restrict=0 && sudo "+d.again("")+" && sudo "+d.archive(), cmp.Or(d.onHost(), "the addresses are not in the recording: it has to be made again"))
	case symbol.NoKallsyms, symbol.OtherBoot:
		f.Kind = Kernel
		f.fix("sudo "+d.archive(), cmp.Or(d.onHost(), "on the host that recorded")+", before it is booted again")
	case symbol.NoVDSO:
		f.Kind = Kernel
		f.fix(d.archive(), cmp.Or(d.onHost(), "on the host that recorded")+", before it is booted into another kernel")
	case symbol.NoPerfMap:
		f.Kind = JIT
		d.perfMap(&f, obj)
	case symbol.NoJITDump:
		f.Kind = JIT
		f.fix(d.archive(), cmp.Or(d.onHost(), "while the file is there: it packs it"))
	case symbol.NoMapping:
		f.Kind = FramePtr
		f.What += "; most often the caller was not found rightly, as code without frame pointers lay between"
		f.fix(d.again("--call-graph dwarf"), d.onHost())
		f.fix("", "build with -fno-omit-frame-pointer (gcc, clang), -C force-frame-pointers=yes (rustc)")
	case symbol.Gap:
		f.Level = Note // nothing helps
	case symbol.Damaged:
		f.fix("perfark buildid-cache --purge "+quote(obj.Path)+" && "+d.archive(), d.onHost())
	default:
		f.fix("", x.Hint)
	}
	if f.Kind != FramePtr && f.Kind != JIT && f.Kind != KernelAddrs && len(d.Elsewhere) > 0 && d.Caller != "" && x.Reason != symbol.Gap {
		f.What += "; " + strings.Join(d.Elsewhere, " or ") + ", which " + d.Caller + " cannot read, may hold it"
		f.Fixes = append([]Fix{{"sudo " + d.archive(), ""}}, f.Fixes...)
	}
	d.list = append(d.list, f)
}

// debugFiles says how to get the debug files of an object.
func (d *recordingDoctor) debugFiles(f *Finding, obj *profile.Object) {
	if p, ok := d.pkgs[obj.Path]; ok {
		if !slices.Contains(d.lack, p) {
			d.lack = append(d.lack, p)
		}
		f.fix(d.Host.install(p), "the package is "+p.name)
	} else if d.pkgs == nil || !d.OS.listed() {
		if cmd := d.OS.installElsewhere(obj.Path, obj.BuildID); cmd != "" && strings.HasPrefix(obj.Path, "/") {
			f.fix(cmd, cmp.Or(d.onHost(), "if it came as a package"))
		}
	}
	if obj.BuildID != "" && (d.packaged(obj.Path) || len(f.Fixes) > 0) {
		f.fix(d.OS.fetch("debuginfo", obj.BuildID)+" && "+d.report(debuginfodDir), "from the distribution's server")
	}
}

// program says how to get an object itself.
func (d *recordingDoctor) program(f *Finding, obj *profile.Object) {
	f.fix(d.archive(), cmp.Or(d.onHost(), "on the host that recorded"))
	if obj.BuildID != "" && d.packaged(obj.Path) {
		f.fix(d.OS.fetch("executable", obj.BuildID)+" && "+d.report(debuginfodDir), "from the distribution's server")
	}
}

// packaged reports whether a path is one where packages put files, and nobody
// else should.
func (d *recordingDoctor) packaged(p string) bool {
	if _, ok := d.pkgs[p]; ok {
		return true
	}
	for _, dir := range []string{"/usr/", "/lib", "/bin/", "/sbin/", "/opt/"} {
		if strings.HasPrefix(p, dir) && !strings.HasPrefix(p, "/usr/local/") {
			return dir != "/opt/"
		}
	}
	return false
}

// absent explains an object of which no file was found.
func (d *recordingDoctor) absent(f *Finding, obj *profile.Object) {
	if !d.Here || !strings.HasPrefix(obj.Path, "/") {
		d.program(f, obj)
		f.fix("perfark buildid-cache --add COPY-OF-THE-FILE-THAT-RAN", "")
		return
	}
	if !d.Host.exists(obj.Path) {
		f.Kind = Namespace
		f.What += "; " + d.gone(obj)
	}
	if obj.BuildID != "" {
		f.fix("perfark buildid-cache --add COPY-OF-THE-FILE-THAT-RAN", "")
	}
	f.fix(d.again("--buildid-mmap")+" && "+d.archive(), "the next time, while the program runs")
	if obj.BuildID != "" && d.packaged(obj.Path) {
		f.fix(d.OS.fetch("executable", obj.BuildID)+" && "+d.report(debuginfodDir), "from the distribution's server")
	}
}

// gone says why a file may not be at the path it was mapped from.
func (d *recordingDoctor) gone(obj *profile.Object) string {
	s := "there is no such file here now: the file was gone when the recording ended (deleted, or its file system unmounted), or is in another mount namespace, as in a container, and was not captured"
	if obj.BuildID != "" {
		s += "; its id is known"
	}
	return s
}

// withoutID explains an object that nothing ties to a file.
func (d *recordingDoctor) withoutID(f *Finding, x *symbol.ObjectOutcome, obj *profile.Object) {
	cmd := d.File.Cmdline()
	o := x.Object
	if obj.Container != "" {
		o = obj.Outer // the recording knows nothing of what is inside
	}
	switch {
	case d.Session.IDSource[o] == session.IDAmbiguous:
		f.What += "; several files were mapped at this path, and the recording has one build id for them"
	case hasArg(cmd, "B", "no-buildid") || hasArg(cmd, "N", "no-buildid-cache") && !d.File.Header().Has(perfdata.FeatureBuildID):
		f.What += "; perf record was told to take none (-B)"
	case !d.File.Header().Has(perfdata.FeatureBuildID):
		f.What += "; it has no build ids at all: it came through a pipe, was cut off, or was made with -B"
	case d.Session.Hit[o]&session.HitIP == 0:
		f.What += "; perf takes ids for objects in which a sample was, not for those that only call"
	case d.Here && strings.HasPrefix(obj.Path, "/") && !d.Host.exists(strings.TrimSuffix(obj.Path, " (deleted)")):
		f.Kind = Namespace
		f.What += "; " + d.gone(obj)
	case d.Here && strings.HasPrefix(obj.Path, "/"):
		f.What += "; the file at the path carries none, or was not readable when the recording ended"
		f.fix("", "link it with a build id: gcc -Wl,--build-id, clang -Wl,--build-id, go build -ldflags=-B=gobuildid")
	}
	f.fix(d.again("--buildid-mmap")+" && "+d.archive(), cmp.Or(d.onHost(), "while the program runs"))
	if d.Session.Hit[o]&session.HitIP == 0 && f.Kind != Namespace {
		f.fix(d.again("--buildid-all"), "with a perf older than 5.12")
	}
}

// perfMap explains code that was made at run time.
func (d *recordingDoctor) perfMap(f *Finding, obj *profile.Object) {
	p := process(d.Session, obj.PID)
	rt := runtimeOf(mapped(d.Session, p))
	comm := ""
	if p != nil {
		comm = p.Comm
	}
	who := fmt.Sprintf("process %d", obj.PID)
	if comm != "" {
		who += " (" + comm + ")"
	}
	if rt.name != "" {
		who += ", which runs " + rt.name
	}
	f.What += "; of " + who
	inner := 0
	if d.Here && p != nil && !p.Exited {
		if inner = d.Host.innerPID(obj.PID); inner > 0 {
			f.What += fmt.Sprintf("; in its container it is process %d, and would write /tmp/perf-%d.map there", inner, inner)
		}
		if rt.name == "Java" {
			f.fix(fmt.Sprintf("jcmd %d Compiler.perfmap && %s", obj.PID, d.archive()), "JDK 17 and later, while it runs")
		}
	}
	f.Fixes = append(f.Fixes, rt.fixes...)
	if comm := d.File.Hostname(); comm != "" && !d.Here {
		f.fix(d.archive(), cmp.Or(d.onHost(), "on the host that recorded")+", if the program wrote /tmp/perf-"+fmt.Sprint(obj.PID)+".map")
	}
}

// lines notes the hot objects that have names but no lines, and all of which a
// part of the debug information is missing.
func (d *recordingDoctor) lines() {
	for i := range d.Outcome.Objects {
		x := &d.Outcome.Objects[i]
		o := &d.p.Objects[i]
		if x.LineReason == symbol.NoShared || x.LineReason == symbol.NoSplit {
			f := Finding{Kind: Lines, Level: Loss, Object: o.Path, ID: o.BuildID, Samples: x.Samples,
				What: "lines and inlined functions are missing: " + string(x.LineReason)}
			if x.LineDetail != "" {
				f.What += ": " + x.LineDetail
			}
			f.fix(d.archive(), cmp.Or(d.onHost(), "where the file is: it packs it"))
			f.fix("", x.LineHint)
			d.list = append(d.list, f)
			continue
		}
		if o.Kind != profile.KindFile || x.FramesNamed == 0 || x.Quality == objfile.FullDWARF || x.Quality == objfile.GoFuncs || x.Samples*100 < d.total || x.Reason == symbol.Stripped || x.Reason == symbol.Exported || x.Reason == symbol.OnlyGo {
			continue
		}
		f := Finding{Kind: Lines, Level: Note, Object: o.Path, ID: o.BuildID, Samples: x.Samples,
			What: "has names, but no source lines and no inlined functions: " + x.Quality.String()}
		d.debugFiles(&f, o)
		if len(f.Fixes) == 0 {
			f.fix("", "build it with -g, and keep the debug files")
		}
		d.list = append(d.list, f)
	}
}

// whole says what is wrong with the recording as a whole.
func (d *recordingDoctor) whole() {
	s := d.Session
	if d.total == 0 && s.GuestSamples == 0 {
		f := d.add(Finding{Kind: Empty, Level: Loss, What: "the recording has no samples"})
		f.fix(d.again(""), "and let the program work for a second at least; perfark doctor --host says what may be in the way")
	}
	if s.KernelRestricted && d.Outcome.UnmappedKernel.Frames == 0 {
		f := d.add(Finding{Kind: KernelAddrs, Level: Loss, Samples: s.KernelSamples, What: "the recording does not say where the kernel is: kernel.kptr_restrict or kernel.perf_event_paranoid hid it from the one who recorded"})
		f.fix("sudo sysctl kernel.kptr_restrict=0 && sudo "+d.again(""), d.onHost())
	}
	l := &d.p.Lost
	if l.Events > 0 || l.Samples > 0 {
		f := d.add(Finding{Kind: Lost, Level: Loss, Samples: l.Samples, What: fmt.Sprintf("the kernel lost %s and %s while recording: the processors or the disk were too busy",
			count(l.Events, "record"), count(l.Samples, "sample"))})
		f.fix(d.again("-m 16M"), "a larger buffer")
		f.fix(d.again("-F 99"), "fewer samples")
	}
	if n := s.Stats.Types[perfdata.RecordThrottle]; n > 0 {
		f := d.add(Finding{Kind: Throttled, Level: Risk, What: fmt.Sprintf("the kernel stopped taking samples %s for a while, as there were too many: shares of short bursts are too low", times(n))})
		f.fix(d.again("-F 99"), "")
		f.fix("sudo sysctl kernel.perf_event_max_sample_rate=100000 kernel.perf_cpu_time_max_percent=0", cmp.Or(d.onHost(), "until the next boot"))
	}
	d.damage()
	d.clock()
	if s.GuestSamples > 0 {
		f := d.add(Finding{Kind: Guest, Level: Note, Samples: s.GuestSamples, What: "samples of virtual machines, whose programs the host does not know"})
		f.fix("perf record -g …", "inside of the virtual machine")
	}
	if s.Auxtrace {
		f := d.add(Finding{Kind: Trace, Level: Risk, What: "the recording has traces of the hardware (Intel PT, CoreSight), which are not decoded: what ran is known to perf alone"})
		f.fix("perf inject --itrace=i100us -i "+quote(cmp.Or(d.Name, "perf.data"))+" -o samples.data && perfark report -i samples.data", "")
	}
}

// damage says that a part of the recording is gone.
func (d *recordingDoctor) damage() {
	list := d.File.Damage()
	if len(list) == 0 && !d.Session.Partial() {
		return
	}
	what := "records could not be read, and what was in them is not counted"
	if len(list) > 0 {
		what = list[0].String()
		if len(list) > 1 {
			what += fmt.Sprintf("; and %s more", count(uint64(len(list)-1), "place"))
		}
	}
	f := d.add(Finding{Kind: Truncated, Level: Loss, What: "the recording is damaged or cut off: " + what})
	f.fix("sha256sum "+quote(cmp.Or(d.Name, "perf.data")), "here and where it was made: copy it again if they differ")
	f.fix(d.again(""), "and end it with Ctrl-C or kill -INT, not kill -9, on a disk with space")
}

// clock says that jitdump files cannot be put into the order of time.
func (d *recordingDoctor) clock() {
	pids := jitdumps(d.Session)
	if len(pids) == 0 {
		return
	}
	for _, ev := range d.File.Events() {
		if ev.Attr.Flags&perfdata.FlagUseClockID != 0 && ev.Attr.ClockID == clockMonotonic {
			return
		}
	}
	var lost uint64
	for i := range d.p.Objects {
		o := &d.p.Objects[i]
		if (o.Kind == profile.KindPerfMap || o.Kind == profile.KindJIT) && slices.Contains(pids, o.PID) {
			lost += o.Samples
		}
	}
	f := d.add(Finding{Kind: Clock, Level: Loss, Samples: lost,
		What: "a program wrote a jitdump, with times of the monotonic clock; the recording has those of another, so code that was replaced may get the wrong name"})
	f.fix(d.again("-k mono"), d.onHost())
}

// clockMonotonic is CLOCK_MONOTONIC.
const clockMonotonic = 1

// onHost says where a command has to run, if not here.
func (d *recordingDoctor) onHost() string {
	if d.Here {
		return ""
	}
	name := d.File.Hostname()
	if name == "" {
		return "on the host that recorded"
	}
	s := "on " + name
	if d.OS.Name != "" {
		s += " (" + d.OS.Name + ")"
	}
	return s
}

// archive is the command that packs the recording.
func (d *recordingDoctor) archive() string {
	if d.Name == "" || d.Name == "perf.data" {
		return "perfark archive"
	}
	return "perfark archive -i " + quote(d.Name)
}

func (d *recordingDoctor) report(args string) string {
	s := "perfark report"
	if d.Name != "" && d.Name != "perf.data" {
		s += " -i " + quote(d.Name)
	}
	return s + " " + args
}

// again is the command that made the recording, with more options in front.
func (d *recordingDoctor) again(options string) string { return again(d.File.Cmdline(), options) }

// alive reports whether a process that had an object mapped did not end in
// the recording.
func (d *recordingDoctor) alive(object int32) bool {
	return d.Here && slices.ContainsFunc(d.Session.Processes, func(p session.Process) bool {
		return !p.Exited && slices.Contains(p.Objects, object)
	})
}

// again returns a recorded command line with more options behind the word
// record, less those that they replace or that lose what is wanted: perf record
// … if nothing is known. Behind what may be the program nothing is changed.
func again(cmdline []string, options string) string {
	pre := "perf record"
	if options != "" {
		pre += " " + options
	}
	if len(cmdline) < 2 || cmdline[1] != "record" || !strings.HasPrefix(path.Base(cmdline[0]), "perf") {
		return pre + " …"
	}
	graph, freq := strings.HasPrefix(options, "--call-graph"), strings.HasPrefix(options, "-F")
	words := cmdline[2:]
	for len(words) > 0 {
		w := words[0]
		if w == "--" || !strings.HasPrefix(w, "-") {
			break
		}
		n := 1
		if slices.Contains(withValue, w) && len(words) > 1 {
			n = 2
		}
		name, _, _ := strings.Cut(w, "=")
		drop := n == 1 && slices.Contains(strings.Fields(options), w) ||
			slices.Contains([]string{"-B", "--no-buildid", "-N", "--no-buildid-cache"}, w) ||
			graph && (name == "-g" || name == "--call-graph") ||
			freq && (strings.HasPrefix(w, "-F") || strings.HasPrefix(w, "-c") || name == "--freq" || name == "--count")
		for _, w := range words[:n] {
			if !drop {
				pre += " " + quote(w)
			}
		}
		words = words[n:]
	}
	for _, w := range words {
		pre += " " + quote(w)
	}
	return pre
}

// withValue are the options of perf record whose value is a word of its own.
var withValue = []string{
	"-e", "-F", "-c", "-o", "-m", "-p", "-t", "-C", "-u", "-D", "-G", "-j", "-k", "--event", "--filter", "--freq", "--count", "--output",
	"--mmap-pages", "--pid", "--tid", "--cpu", "--uid", "--delay", "--cgroup", "--branch-filter", "--clockid", "--call-graph", "--max-stack",
}

// hasArg reports whether a perf command line has an option, given its letter
// and its name.
func hasArg(cmdline []string, letter, name string) bool {
	for _, w := range cmdline {
		if w == "--" {
			break
		}
		if w == "-"+letter || w == "--"+name {
			return true
		}
	}
	return false
}

// times writes how often.
func times(n uint64) string {
	if n == 1 {
		return "once"
	}
	return count(n, "time")
}
