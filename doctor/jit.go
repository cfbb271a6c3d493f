package doctor

import (
	"path"
	"strconv"
	"strings"

	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
)

// A runtime is a program that makes code at run time, and what makes it tell
// perf the names.
type runtime struct {
	name  string
	files []string // beginnings of the base names of what it maps
	fixes []Fix
}

// runtimes are tried in order: the first that fits counts.
var runtimes = []runtime{
	{"Java", []string{"libjvm.so", "libj9jit"}, []Fix{
		{"java -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit …", "JDK 17 and later"},
		{"java -XX:+PreserveFramePointer -agentpath:PATH/libperf-jvmti.so … with perf record -k mono", "any JDK; the agent comes with perf, in a package of its own or with its sources"},
	}},
	{".NET", []string{"libcoreclr.so"}, []Fix{{"DOTNET_PerfMapEnabled=1 dotnet …", ""}}},
	{"Erlang", []string{"beam.smp"}, []Fix{{"erl +JPperf true …", "OTP 25 and later"}}},
	{"Julia", []string{"libjulia"}, []Fix{{"ENABLE_JITPROFILING=1 julia … with perf record -k mono", ""}}},
	{"Ruby", []string{"libruby", "ruby"}, []Fix{{"ruby --yjit --yjit-perf …", "Ruby 3.3 and later"}}},
	{"PHP", []string{"opcache.so"}, []Fix{{"php -d opcache.jit_debug=16 …", ""}}},
	{"Wasmtime", []string{"wasmtime"}, []Fix{{"wasmtime run --profile perfmap …", ""}}},
	{"QEMU", []string{"qemu-"}, []Fix{{"qemu-ARCH -perfmap …", "QEMU 8 and later"}}},
	{"Chromium", []string{"chrome", "chromium"}, []Fix{{"chromium --no-sandbox --js-flags=--perf-basic-prof …", ""}}},
	{"Node.js", []string{"node", "libnode.so"}, []Fix{{"node --perf-basic-prof --interpreted-frames-native-stack …", ""}}},
	{"Python", []string{"libpython3", "python3"}, []Fix{{"python3 -X perf …", "Python 3.12 and later"}}},
}

// anyRuntime is for what is not known.
var anyRuntime = runtime{"", nil, []Fix{{"", "let it write /tmp/perf-PID.map or jitdump, if it can: java, node, python, dotnet, ruby, erl, julia and wasmtime have an option for it"}}}

// has reports whether a file is of r.
func (r *runtime) has(file string) bool {
	base := path.Base(strings.TrimSuffix(file, " (deleted)"))
	for _, mark := range r.files {
		if rest, ok := strings.CutPrefix(base, mark); ok && (strings.HasSuffix(mark, "-") || rest == "" || strings.ContainsAny(rest[:1], ".-0123456789") || strings.HasPrefix(mark, "lib")) {
			return true
		}
	}
	return false
}

// runtimeOf finds the runtime of a process by what it had mapped.
func runtimeOf(files []string) *runtime {
	for i := range runtimes {
		for _, f := range files {
			if runtimes[i].has(f) {
				return &runtimes[i]
			}
		}
	}
	return &anyRuntime
}

// process returns the process with a pid, nil if there is none.
func process(res *session.Result, pid int32) *session.Process {
	for i := range res.Processes {
		if res.Processes[i].PID == pid {
			return &res.Processes[i]
		}
	}
	return nil
}

// mapped lists the paths that a process had mapped as code.
func mapped(res *session.Result, p *session.Process) []string {
	if p == nil {
		return nil
	}
	var files []string
	for _, o := range p.Objects {
		files = append(files, res.Profile.Objects[o].Path)
	}
	return files
}

// isJitdump reports whether a mapped file is the mark that a runtime writes a
// jitdump: jit-PID.dump.
func isJitdump(p string) bool {
	pid, ok := strings.CutPrefix(path.Base(p), "jit-")
	if !ok {
		return false
	}
	pid, ok = strings.CutSuffix(strings.TrimSuffix(pid, " (deleted)"), ".dump")
	if !ok {
		return false
	}
	_, err := strconv.ParseUint(pid, 10, 31)
	return err == nil
}

// jitdumps lists the processes that mapped a jitdump.
func jitdumps(res *session.Result) []int32 {
	var pids []int32
	for i := range res.Processes {
		p := &res.Processes[i]
		for _, o := range p.Objects {
			if x := &res.Profile.Objects[o]; (x.Kind == profile.KindFile || x.Kind == profile.KindJIT) && isJitdump(x.Path) {
				pids = append(pids, p.PID)
				break
			}
		}
	}
	return pids
}
