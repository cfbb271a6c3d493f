package doctor

import (
	"bufio"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A Host is what a host lets perf see, for who runs this.
type Host struct {
	root string

	OS      OS
	Release string // of the kernel; "" if unknown

	EUID int    // effective user; -1 if unknown
	Caps uint64 // effective capabilities, a bit each

	Kptr       int // kernel.kptr_restrict; -1 if unknown
	Paranoid   int // kernel.perf_event_paranoid; noPerf if there is no such file
	MlockKB    int // kernel.perf_event_mlock_kb; -1 if unknown
	MaxStack   int // kernel.perf_event_max_stack; -1 if unknown
	MaxRate    int // kernel.perf_event_max_sample_rate, a second; -1 if unknown
	Lockdown   string
	Seccomp    bool // a filter may forbid perf_event_open
	PIDNS      bool // not in the first pid namespace
	PMU        bool // the processor's counters can be used
	Kallsyms   bool // /proc/kallsyms has addresses, for who runs this
	NoKallsyms bool // there is none

	apt     []string // debug packages in the lists of apt
	aptRead bool
}

// noPerf says that the kernel was built without perf_event_open, or hides it.
const noPerf = math.MinInt32

// The capabilities that matter, by bit (include/uapi/linux/capability.h).
const (
	capIPCLock   = 14
	capSysPtrace = 19
	capSysAdmin  = 21
	capSyslog    = 34
	capPerfmon   = 38
)

// initPIDNS is the inode of the first pid namespace (include/linux/proc_ns.h).
const initPIDNS = "pid:[4026531836]"

// maxFile is the most that is read of a file of the host, in bytes; package
// lists have a limit of their own.
const maxFile = 1 << 20

// ReadHost reads what the files under root say; "" means /. What is missing is
// unknown.
func ReadHost(root string) *Host {
	if root == "" {
		root = "/"
	}
	h := &Host{root: root, EUID: -1}
	h.OS = ParseOS(h.read("etc/os-release"))
	if h.OS == (OS{}) {
		h.OS = ParseOS(h.read("usr/lib/os-release"))
	}
	h.Release = strings.TrimSpace(h.read("proc/sys/kernel/osrelease"))
	h.Kptr = h.number("proc/sys/kernel/kptr_restrict", -1)
	h.Paranoid = h.number("proc/sys/kernel/perf_event_paranoid", noPerf)
	h.MlockKB = h.number("proc/sys/kernel/perf_event_mlock_kb", -1)
	h.MaxStack = h.number("proc/sys/kernel/perf_event_max_stack", -1)
	h.MaxRate = h.number("proc/sys/kernel/perf_event_max_sample_rate", -1)
	h.Lockdown = chosen(h.read("sys/kernel/security/lockdown"))
	h.status(h.read("proc/self/status"))
	if ns, err := os.Readlink(filepath.Join(root, "proc/self/ns/pid")); err == nil {
		h.PIDNS = ns != initPIDNS
	}
	h.PMU = h.hasPMU()
	h.kallsyms()
	return h
}

// read returns the beginning of a file; "" if it cannot be read.
func (h *Host) read(name string) string { return h.readMax(name, maxFile) }

func (h *Host) readMax(name string, most int64) string {
	f, err := os.Open(filepath.Join(h.root, name))
	if err != nil {
		return ""
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(f, most))
	if err != nil {
		return ""
	}
	return string(b)
}

func (h *Host) number(name string, without int) int {
	n, err := strconv.Atoi(strings.TrimSpace(h.read(name)))
	if err != nil {
		return without
	}
	return n
}

// chosen returns the word in brackets: none [integrity] confidentiality.
func chosen(s string) string {
	_, s, ok := strings.Cut(s, "[")
	if !ok {
		return ""
	}
	s, _, _ = strings.Cut(s, "]")
	return s
}

// status reads who we are and what we may do.
func (h *Host) status(text string) {
	for line := range strings.Lines(text) {
		key, rest, _ := strings.Cut(line, ":")
		words := strings.Fields(rest)
		if len(words) == 0 {
			continue
		}
		switch key {
		case "Uid":
			if len(words) > 1 {
				if n, err := strconv.Atoi(words[1]); err == nil {
					h.EUID = n
				}
			}
		case "CapEff":
			h.Caps, _ = strconv.ParseUint(words[0], 16, 64)
		case "Seccomp":
			h.Seccomp = words[0] == "2"
		}
	}
}

func (h *Host) can(bits ...uint) bool {
	return slices.ContainsFunc(bits, func(bit uint) bool { return h.Caps>>bit&1 != 0 })
}

// hasPMU reports whether a processor's own events are registered: names differ
// by architecture, and on hybrid ones there are several.
func (h *Host) hasPMU() bool {
	list, err := os.ReadDir(filepath.Join(h.root, "sys/bus/event_source/devices"))
	if err != nil {
		return true // nothing is known
	}
	return slices.ContainsFunc(list, func(e os.DirEntry) bool {
		name := e.Name()
		return name == "cpu" || strings.HasPrefix(name, "cpu_") || strings.HasPrefix(name, "arm") && strings.Contains(name, "pmu") ||
			strings.HasPrefix(name, "riscv-pmu") || strings.HasPrefix(name, "apple_")
	})
}

// kallsyms looks at the first addresses of /proc/kallsyms.
func (h *Host) kallsyms() {
	f, err := os.Open(filepath.Join(h.root, "proc/kallsyms"))
	if err != nil {
		h.NoKallsyms = true
		return
	}
	defer f.Close()
	sc := bufio.NewScanner(io.LimitReader(f, 64<<10))
	for n := 0; n < 100 && sc.Scan(); n++ {
		addr, _, _ := strings.Cut(sc.Text(), " ")
		if strings.Trim(addr, "0") != "" && h.Paranoid != noPerf {
			h.Kallsyms = true
			return
		}
	}
}

// Findings says what a recording made here now, by who runs this, would miss.
func (h *Host) Findings() []Finding {
	var list []Finding
	list = append(list, h.privileges()...)
	list = append(list, h.addresses()...)
	if h.Paranoid != noPerf && !h.PMU {
		f := Finding{Kind: NoEvents, Level: Risk,
			What: "this machine shows no counters of its processor (a virtual machine or a container): perf record falls back to a timer, which cannot see code that runs with interrupts off"}
		f.fix("perf record -e cpu-clock -F 999 -g …", "says so in the recording")
		list = append(list, f)
	}
	list = append(list, h.limits()...)
	if h.PIDNS {
		f := Finding{Kind: Container, Level: Risk,
			What: "this runs in a container (its own pid namespace): processes of other containers and of the host are not seen, and perf maps carry the inner pid"}
		f.fix("perf record -a … && perfark archive", "on the host, outside of the container")
		list = append(list, f)
	}
	list = append(list, h.processes()...)
	Sort(list)
	return list
}

// privileges says which events may not be recorded.
func (h *Host) privileges() []Finding {
	var list []Finding
	if h.Paranoid == noPerf {
		f := Finding{Kind: NoEvents, Level: Loss, What: "the kernel has no perf events (no /proc/sys/kernel/perf_event_paranoid): perf record cannot work here"}
		f.fix("", "boot a kernel with CONFIG_PERF_EVENTS, or leave the sandbox (gVisor and the like)")
		return append(list, f)
	}
	perfmon := h.can(capPerfmon, capSysAdmin)
	if h.Seccomp && !perfmon {
		f := Finding{Kind: Capability, Level: Loss, What: "a seccomp filter is active, as in a container: it may forbid perf_event_open altogether"}
		f.fix("docker run --cap-add PERFMON --security-opt seccomp=unconfined …", "starts the container anew; or record on the host")
		list = append(list, f)
	}
	if h.Lockdown == "confidentiality" {
		f := Finding{Kind: KernelAddrs, Level: Loss, What: "the kernel is locked down (confidentiality): nobody may sample it, or read its addresses"}
		f.fix("", "boot without lockdown=confidentiality; user code can be recorded all the same: perf record -e cycles:u")
		list = append(list, f)
	}
	if !perfmon {
		list = append(list, h.paranoid()...)
	}
	if !h.can(capSysPtrace) && h.EUID != 0 {
		f := Finding{Kind: Capability, Level: Risk, What: "CAP_SYS_PTRACE is missing: of processes of other users the files in containers, deleted files and perf maps cannot be read"}
		f.fix("sudo perf record … && sudo perfark archive", "")
		list = append(list, f)
	}
	return list
}

// paranoid says what kernel.perf_event_paranoid forbids who has no capability.
func (h *Host) paranoid() []Finding {
	var list []Finding
	need := func(level int, what string) {
		f := Finding{Kind: Capability, Level: Loss, What: "kernel.perf_event_paranoid is " + strconv.Itoa(h.Paranoid) + " and CAP_PERFMON is missing: " + what}
		f.fix("sudo sysctl kernel.perf_event_paranoid="+strconv.Itoa(level), "until the next boot")
		f.fix("sudo perf record …", "")
		f.fix("sudo setcap cap_perfmon,cap_syslog,cap_sys_ptrace+ep $(readlink -f $(command -v perf))", "lets every user do it")
		list = append(list, f)
	}
	switch p := h.Paranoid; {
	case p >= 3:
		need(1, "this user can record nothing at all")
	case p == 2:
		need(1, "no samples of the kernel, and not of the whole system (-a) or of a processor (-C)")
	case p == 1:
		need(-1, "not of the whole system (-a) or of a processor (-C), only of processes of this user")
	case p == 0:
		need(-1, "no raw tracepoints")
	}
	return list
}

// addresses says whether kernel frames would get names.
func (h *Host) addresses() []Finding {
	switch {
	case h.Paranoid == noPerf, h.Lockdown == "confidentiality":
		return nil
	case h.Kallsyms:
		return nil
	case h.NoKallsyms:
		f := Finding{Kind: KernelAddrs, Level: Loss, What: "there is no /proc/kallsyms: frames of the kernel would have no names"}
		f.fix("", "boot a kernel with CONFIG_KALLSYMS, or have its vmlinux: perfark archive --vmlinux FILE")
		return []Finding{f}
	}
	why := "/proc/kallsyms shows no addresses to this user"
	f := Finding{Kind: KernelAddrs, Level: Loss}
	switch {
	case h.Kptr >= 2:
		why = "kernel.kptr_restrict is " + strconv.Itoa(h.Kptr) + ": nobody, not even root, sees kernel addresses"
		f.fix("sudo sysctl kernel.kptr_restrict=1 && sudo perf record …", "until the next boot")
	case h.Kptr == 1 && !h.can(capSyslog):
		why = "kernel.kptr_restrict is 1 and CAP_SYSLOG is missing: this user does not see kernel addresses"
		f.fix("sudo perf record …", "")
		f.fix("sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1", "until the next boot, for every user")
	case h.Kptr == 0 && h.Paranoid > 1 && !h.can(capSyslog):
		why = "kernel.perf_event_paranoid is " + strconv.Itoa(h.Paranoid) + " and CAP_SYSLOG is missing: this user does not see kernel addresses"
		f.fix("sudo perf record …", "")
		f.fix("sudo sysctl kernel.perf_event_paranoid=1", "until the next boot, for every user")
	default:
		f.fix("sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1", "until the next boot")
	}
	f.What = why + ": a recording would not say where the kernel is, and all its frames would be unnamed"
	return []Finding{f}
}

// limits says what the kernel's limits would cut.
func (h *Host) limits() []Finding {
	var list []Finding
	if h.MlockKB >= 0 && h.MlockKB < 516 && !h.can(capIPCLock, capPerfmon, capSysAdmin) {
		f := Finding{Kind: Lost, Level: Risk, What: "kernel.perf_event_mlock_kb is " + strconv.Itoa(h.MlockKB) + ": buffers are small, and samples may get lost"}
		f.fix("sudo sysctl kernel.perf_event_mlock_kb=4096", "until the next boot")
		list = append(list, f)
	}
	if h.MaxRate > 0 && h.MaxRate < 4000 {
		f := Finding{Kind: Throttled, Level: Risk, What: "kernel.perf_event_max_sample_rate is " + strconv.Itoa(h.MaxRate) + " a second, below perf's default of 4000: the kernel lowered it, as samples took long"}
		f.fix("sudo sysctl kernel.perf_cpu_time_max_percent=0 kernel.perf_event_max_sample_rate=100000", "until the next boot")
		f.fix("perf record -F "+strconv.Itoa(h.MaxRate)+" …", "")
		list = append(list, f)
	}
	if h.MaxStack >= 0 && h.MaxStack < 127 {
		f := Finding{Kind: DeepChains, Level: Risk, What: "kernel.perf_event_max_stack is " + strconv.Itoa(h.MaxStack) + ": deeper call chains lose their outermost callers"}
		f.fix("sudo sysctl kernel.perf_event_max_stack=127", "until the next boot, while nobody records")
		list = append(list, f)
	}
	return list
}
