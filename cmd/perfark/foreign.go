package main

import (
	"github.com/spf13/pflag"
)

// A foreignFlag is a flag of perf that perfark does not have, or that changes
// nothing: it is accepted so that command lines for perf work. Neither kind is
// in the help.
type foreignFlag struct {
	name, short string
	value       valueKind
	why         string // it is refused; "": it is accepted, and nothing changes
}

// A valueKind says whether a flag has a value.
type valueKind uint8

const (
	noValue valueKind = iota
	oneValue
	maybeValue // behind a =
)

const (
	noBrowser     = "perfark opens no windows"
	noDisassembly = "perfark script does not disassemble; perfark annotate does"
	noDump        = "perfark does not dump records; perfark script --show-task-events --show-mmap-events … prints them"
	noGuestFiles  = "perfark takes the kernels of guests by their Build IDs alone: --symbols says where they are"
	noHardware    = "perfark does not decode traces of the hardware"
	noScripts     = "perfark runs no scripts; its lines can be piped into them"
	noStitching   = "perfark does not join the call stacks of LBRs"
)

var reportForeign = []foreignFlag{
	{"asm-raw", "", noValue, ""},
	{"disable-order", "", noValue, ""},
	{"dump-raw-trace", "D", noValue, noDump},
	{"gtk", "", noValue, noBrowser},
	{"itrace", "", maybeValue, noHardware},
	{"pretty", "", oneValue, ""},
	{"samples", "", oneValue, ""},
	{"show-ref-call-graph", "", noValue, "perfark shows each event with its own call chains"},
	{"stitch-lbr", "", noValue, noStitching},
}

var scriptForeign = []foreignFlag{
	{"Latency", "L", noValue, ""},
	{"all-cpus", "a", noValue, ""},
	{"call-ret-trace", "", maybeValue, noHardware},
	{"call-trace", "", maybeValue, noHardware},
	{"debug-mode", "d", noValue, ""},
	{"dlarg", "", oneValue, noScripts},
	{"dlfilter", "", oneValue, noScripts},
	{"dump-raw-trace", "D", noValue, noDump},
	{"dump-unsorted-raw-trace", "", noValue, noDump},
	{"gen-script", "g", oneValue, noScripts},
	{"graph-function", "", oneValue, noHardware},
	{"guest-code", "", noValue, noGuestFiles},
	{"guestkallsyms", "", oneValue, noGuestFiles},
	{"guestmodules", "", oneValue, noGuestFiles},
	{"guestmount", "", oneValue, noGuestFiles},
	{"guestvmlinux", "", oneValue, noGuestFiles},
	{"insn-trace", "", maybeValue, noHardware},
	{"itrace", "", maybeValue, noHardware},
	{"list", "l", noValue, noScripts},
	{"list-dlfilters", "", noValue, noScripts},
	{"max-blocks", "", oneValue, noDisassembly},
	{"per-event-dump", "", noValue, "perfark writes to standard output alone; -F hw:…, sw:… and trace:… choose events by type"},
	{"script", "s", oneValue, noScripts},
	{"show-round-events", "", noValue, "perfark prints samples in the order of time, in which the rounds of a recorder have no place"},
	{"stitch-lbr", "", noValue, noStitching},
	{"xed", "", maybeValue, noDisassembly},
}

// addForeignFlags binds flags that perf alone has.
func addForeignFlags(fs *pflag.FlagSet, list []foreignFlag) {
	for _, f := range list {
		if f.value == noValue {
			addSwitch(fs, new(bool), f.name, f.short, false, "")
		} else {
			fs.StringP(f.name, f.short, "", "")
		}
		x := fs.Lookup(f.name)
		x.Hidden = true
		if f.value == maybeValue {
			x.NoOptDefVal = " "
		}
	}
}

// checkForeignFlags returns an error for the first flag given that perfark does
// not have.
func checkForeignFlags(fs *pflag.FlagSet, list []foreignFlag) error {
	for _, f := range list {
		if f.why != "" && fs.Changed(f.name) {
			return usagef("--%s: %s", f.name, f.why)
		}
	}
	return nil
}
