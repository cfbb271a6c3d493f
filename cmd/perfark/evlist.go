package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/perfdata"
)

func newEvlistCmd(a *app) *cobra.Command {
	var o evlistOptions
	cmd := &cobra.Command{
		Use:   "evlist [FILE]",
		Short: "list the events of a recording",
		Long: `Evlist prints the names of the events of a recording, one in a line, as perf evlist
does. FILE is a recording, a bundle or -, and perf.data by default.

Exit status: 0 all was read; 3 a part of it is damaged, which standard error explains.`,
		Example: `  perfark evlist
  perfark evlist -v -i perf.data
  perfark evlist -g`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := a.inputName(args)
			if err != nil {
				return err
			}
			in, err := a.openInput(cmd.Context(), name)
			if err != nil {
				return err
			}
			defer in.Close()
			o.verbose = a.verbose > 0
			return a.runEvlist(in, o)
		},
	}
	a.addInputFlags(cmd)
	a.addArchiveLimitFlags(cmd)
	a.addOutputFlags(cmd)
	fs := cmd.Flags()
	fs.Lookup("verbose").Usage = "print the attributes of each event"
	fs.BoolVarP(&o.freq, "freq", "F", false, "print the sample frequency or period of each event")
	fs.BoolVarP(&o.group, "group", "g", false, "print the events of a group in one line")
	return cmd
}

func (a *app) runEvlist(in *input, o evlistOptions) error {
	if o.group && (o.verbose || o.freq) {
		return usagef("-g goes with neither -v nor -F")
	}
	if a.json {
		if err := a.printJSON(jsonEvents(in.File)); err != nil {
			return err
		}
	} else if err := writeEvlist(a.stdout, in.File, o); err != nil {
		return err
	}
	a.stdout.Flush()
	return a.headerLosses(in.File)
}

// evlistOptions are for writeEvlist.
type evlistOptions struct {
	verbose bool // the attributes
	freq    bool // the frequency or period
	group   bool // groups in one line
}

// writeEvlist writes the events of a recording as perf evlist does.
func writeEvlist(w io.Writer, f *perfdata.File, o evlistOptions) error {
	var b strings.Builder
	groups, _ := f.GroupDesc()
	skip := 0 // members of a group that has been printed
	tracepoints := false
	for i := range f.Events() {
		e := &f.Events()[i]
		tracepoints = tracepoints || e.Attr.Type == perfdata.TypeTracepoint
		if skip > 0 {
			skip--
			continue
		}
		line := e.Name
		switch {
		case o.group:
			g := slices.IndexFunc(groups, func(g perfdata.GroupDesc) bool { return uint64(g.Leader) == uint64(i) && g.Members > 1 })
			if g >= 0 {
				line = groupText(f.Events(), groups[g])
				skip = int(min(uint64(groups[g].Members), uint64(len(f.Events())))) - 1
			}
		case o.verbose:
			sep := ": "
			for _, fd := range attrFields(&e.Attr) {
				line += sep + fd.name + ": " + fd.value
				sep = ", "
			}
		case o.freq && e.Attr.Flags.Has(perfdata.FlagFreq):
			line += fmt.Sprintf(": sample_freq=%d", e.Attr.SamplePeriod)
		case o.freq:
			line += fmt.Sprintf(": sample_period=%d", e.Attr.SamplePeriod)
		}
		b.WriteString(escape.Name(line) + "\n")
	}
	if tracepoints {
		b.WriteString("# Tip: use 'perf evlist --trace-fields' to show fields for tracepoint events\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// An attrField is a field of an attr that is not zero.
type attrField struct{ name, value string }

// attrFields lists the fields of an attr that are not zero, in perf's words
// and order.
func attrFields(a *perfdata.Attr) []attrField {
	var list []attrField
	add := func(name, format string, v uint64) {
		if v != 0 {
			list = append(list, attrField{name, fmt.Sprintf(format, v)})
		}
	}
	add("type", "%d", uint64(a.Type))
	add("size", "%d", uint64(a.Size))
	add("config", "%#x", a.Config)
	add("{ sample_period, sample_freq }", "%d", a.SamplePeriod)
	if a.SampleType != 0 {
		list = append(list, attrField{"sample_type", bitNames(uint64(a.SampleType), sampleBits)})
	}
	if a.ReadFormat != 0 {
		list = append(list, attrField{"read_format", bitNames(uint64(a.ReadFormat), readBits)})
	}
	for _, fl := range attrFlags {
		if fl.name == "precise_ip" {
			add(fl.name, "%d", uint64(a.Flags.Precise()))
		} else if a.Flags.Has(1 << fl.bit) {
			add(fl.name, "%d", 1)
		}
	}
	add("{ wakeup_events, wakeup_watermark }", "%d", uint64(a.WakeupEvents))
	add("bp_type", "%d", uint64(a.BPType))
	add("{ bp_addr, config1 }", "%#x", a.Config1)
	add("{ bp_len, config2 }", "%#x", a.Config2)
	if a.BranchSampleType != 0 {
		list = append(list, attrField{"branch_sample_type", bitNames(a.BranchSampleType, branchBits)})
	}
	add("sample_regs_user", "%#x", a.SampleRegsUser)
	add("sample_stack_user", "%d", uint64(a.SampleStackUser))
	if a.ClockID != 0 {
		list = append(list, attrField{"clockid", fmt.Sprint(a.ClockID)})
	}
	add("sample_regs_intr", "%#x", a.SampleRegsIntr)
	add("aux_watermark", "%d", uint64(a.AuxWatermark))
	add("sample_max_stack", "%d", uint64(a.SampleMaxStack))
	add("aux_sample_size", "%d", uint64(a.AuxSampleSize))
	add("sig_data", "%d", a.SigData)
	return list
}

// A bitName is the name of a bit, by its number.
type bitName struct {
	bit  int
	name string
}

// The orders are perf's: it prints bits as its tables list them.
var (
	sampleBits = []bitName{
		{0, "IP"}, {1, "TID"}, {2, "TIME"}, {3, "ADDR"}, {4, "READ"}, {5, "CALLCHAIN"}, {6, "ID"}, {7, "CPU"},
		{8, "PERIOD"}, {9, "STREAM_ID"}, {10, "RAW"}, {11, "BRANCH_STACK"}, {12, "REGS_USER"}, {13, "STACK_USER"},
		{16, "IDENTIFIER"}, {18, "REGS_INTR"}, {15, "DATA_SRC"}, {14, "WEIGHT"}, {19, "PHYS_ADDR"}, {20, "AUX"},
		{21, "CGROUP"}, {22, "DATA_PAGE_SIZE"}, {23, "CODE_PAGE_SIZE"}, {24, "WEIGHT_STRUCT"},
	}
	readBits = []bitName{
		{0, "TOTAL_TIME_ENABLED"}, {1, "TOTAL_TIME_RUNNING"}, {2, "ID"}, {3, "GROUP"}, {4, "LOST"},
	}
	branchBits = []bitName{
		{0, "USER"}, {1, "KERNEL"}, {2, "HV"}, {3, "ANY"}, {4, "ANY_CALL"}, {5, "ANY_RETURN"}, {6, "IND_CALL"},
		{7, "ABORT_TX"}, {8, "IN_TX"}, {9, "NO_TX"}, {10, "COND"}, {11, "CALL_STACK"}, {12, "IND_JUMP"}, {13, "CALL"},
		{14, "NO_FLAGS"}, {15, "NO_CYCLES"}, {16, "TYPE_SAVE"}, {17, "HW_INDEX"}, {18, "PRIV_SAVE"}, {19, "COUNTERS"},
	}
	attrFlags = []bitName{
		{0, "disabled"}, {1, "inherit"}, {2, "pinned"}, {3, "exclusive"}, {4, "exclude_user"}, {5, "exclude_kernel"},
		{6, "exclude_hv"}, {7, "exclude_idle"}, {8, "mmap"}, {9, "comm"}, {10, "freq"}, {11, "inherit_stat"},
		{12, "enable_on_exec"}, {13, "task"}, {14, "watermark"}, {15, "precise_ip"}, {17, "mmap_data"},
		{18, "sample_id_all"}, {19, "exclude_host"}, {20, "exclude_guest"}, {21, "exclude_callchain_kernel"},
		{22, "exclude_callchain_user"}, {23, "mmap2"}, {24, "comm_exec"}, {25, "use_clockid"}, {26, "context_switch"},
		{27, "write_backward"}, {28, "namespaces"}, {29, "ksymbol"}, {30, "bpf_event"}, {31, "aux_output"}, {32, "cgroup"},
		{33, "text_poke"}, {34, "build_id"}, {35, "inherit_thread"}, {36, "remove_on_exec"}, {37, "sigtrap"},
		{38, "defer_callchain"}, {39, "defer_output"},
	}
)

// bitNames joins the names of the bits that are set.
func bitNames(v uint64, table []bitName) string {
	var list []string
	for _, b := range table {
		if v>>b.bit&1 != 0 {
			list = append(list, b.name)
		}
	}
	return strings.Join(list, "|")
}
