package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/perfark/perfark/perfdata"
)

// A field is a column of perfark script, and a set of them.
type field uint64

// The columns, by perf's names.
const (
	fieldComm field = 1 << iota
	fieldTID
	fieldPID
	fieldTime
	fieldCPU
	fieldEvent
	fieldTrace
	fieldIP
	fieldSym
	fieldDSO
	fieldAddr
	fieldSymoff
	fieldSrcline
	fieldPeriod
	fieldIregs
	fieldUregs
	fieldBrstack
	fieldBrstackSym
	fieldBrstackOff
	fieldDataSrc
	fieldWeight
	fieldBPFOutput
	fieldPhysAddr
	fieldMisc
	fieldTOD
	fieldDataPage
	fieldCodePage
	fieldInsLat
	fieldCgroup
	fieldFlags
	fieldSynth
)

// fieldNames are in perf's order; those behind it are of newer perfs.
var fieldNames = []struct {
	name string
	bit  field
	need perfdata.SampleType // fields of a sample, one of which is needed; 0: none
	what string              // how perf calls those in messages
}{
	{"comm", fieldComm, 0, ""},
	{"tid", fieldTID, perfdata.SampleTID, "TID"},
	{"pid", fieldPID, perfdata.SampleTID, "TID"},
	{"time", fieldTime, perfdata.SampleTime, "TIME"},
	{"cpu", fieldCPU, perfdata.SampleCPU, "CPU"},
	{"event", fieldEvent, 0, ""},
	{"trace", fieldTrace, 0, ""},
	{"ip", fieldIP, perfdata.SampleIP, "IP"},
	{"sym", fieldSym, 0, ""},
	{"dso", fieldDSO, 0, ""},
	{"addr", fieldAddr, perfdata.SampleAddr, "ADDR"},
	{"symoff", fieldSymoff, 0, ""},
	{"srcline", fieldSrcline, 0, ""},
	{"period", fieldPeriod, 0, ""},
	{"iregs", fieldIregs, perfdata.SampleRegsIntr, "IREGS"},
	{"uregs", fieldUregs, perfdata.SampleRegsUser, "UREGS"},
	{"brstack", fieldBrstack, 0, ""},
	{"brstacksym", fieldBrstackSym, 0, ""},
	{"flags", fieldFlags, 0, ""},
	{"data_src", fieldDataSrc, perfdata.SampleDataSrc, "DATA_SRC"},
	{"weight", fieldWeight, perfdata.SampleWeight | perfdata.SampleWeightStruct, "WEIGHT"},
	{"bpf-output", fieldBPFOutput, 0, ""},
	{"brstackoff", fieldBrstackOff, 0, ""},
	{"synth", fieldSynth, 0, ""},
	{"phys_addr", fieldPhysAddr, perfdata.SamplePhysAddr, "PHYS_ADDR"},
	{"misc", fieldMisc, 0, ""},
	{"tod", fieldTOD, 0, ""},
	{"data_page_size", fieldDataPage, perfdata.SampleDataPageSize, "DATA_PAGE_SIZE"},
	{"code_page_size", fieldCodePage, perfdata.SampleCodePageSize, "CODE_PAGE_SIZE"},
	{"ins_lat", fieldInsLat, perfdata.SampleWeightStruct, "WEIGHT_STRUCT"},
	{"cgroup", fieldCgroup, perfdata.SampleCgroup, "CGROUP"},
}

// foreignFields are columns that perf has and perfark has not, and why.
var foreignFields = map[string]string{
	"brstackinsn":    noDisassembly,
	"brstackinsnlen": noDisassembly,
	"brstackdisasm":  noDisassembly,
	"brcntr":         "perfark does not show branch counters",
	"callindent":     noHardware,
	"insn":           noHardware,
	"insnlen":        noHardware,
	"disasm":         noHardware,
	"ipc":            noHardware,
	"metric":         "perfark does not compute metrics",
	"srccode":        "perfark script shows no source code; perfark annotate does",
	"machine_pid":    "perfark does not merge recordings of guests",
	"vcpu":           "perfark does not merge recordings of guests",
	"retire_lat":     "perf 6.1 does not have it either",
	"dsoff":          "perf 6.1 does not have it either",
}

// An outputType is a kind of event that has columns of its own.
type outputType int

// The kinds: those of perf_event_attr.type, then perf's.
const (
	outputHardware outputType = iota
	outputSoftware
	outputTracepoint
	outputCache
	outputRaw
	outputBreakpoint
	outputSynth
	outputOther
	outputTypes
)

func (t outputType) String() string {
	return [...]string{"hardware", "software", "tracepoint", "hw-cache", "raw", "breakpoint", "synth", "unknown-event-type"}[t]
}

// outputNames are the prefixes of --fields.
var outputNames = map[string]outputType{
	"hw": outputHardware, "sw": outputSoftware, "trace": outputTracepoint,
	"raw": outputRaw, "break": outputBreakpoint, "synth": outputSynth,
}

// outputOf returns the kind of an event.
func outputOf(a *perfdata.Attr) outputType {
	if t := outputType(a.Type); t <= outputBreakpoint {
		return t
	}
	const typeSynth = 1<<31 - 1 + 1 // PERF_TYPE_SYNTH: INT_MAX + 1U
	if a.Type == typeSynth {
		return outputSynth
	}
	return outputOther
}

const (
	fieldsAddress = fieldIP | fieldSym | fieldSymoff | fieldDSO
	fieldsUsual   = fieldComm | fieldTID | fieldCPU | fieldTime | fieldEvent
)

// A fieldSet is the columns of one kind of event.
type fieldSet struct {
	fields  field
	asked   field // by name: an error if they cannot be shown
	invalid field
	set     bool // by the user
	typed   bool // by the user for this kind alone
}

// defaultFields are perf's.
func defaultFields() (sets [outputTypes]fieldSet) {
	for t := range sets {
		sets[t] = fieldSet{fields: fieldsUsual | fieldsAddress | fieldPeriod, invalid: fieldTrace | fieldBPFOutput}
	}
	sets[outputSoftware].fields |= fieldBPFOutput
	sets[outputSoftware].invalid = fieldTrace
	sets[outputTracepoint] = fieldSet{fields: fieldsUsual | fieldTrace}
	sets[outputRaw].fields |= fieldAddr | fieldDataSrc | fieldWeight | fieldPhysAddr | fieldDataPage | fieldCodePage | fieldInsLat
	sets[outputSynth].fields = fieldsUsual | fieldsAddress | fieldSynth
	sets[outputSynth].invalid = fieldTrace | fieldBPFOutput
	return sets
}

// A fieldParser reads the values of --fields, one after the other, into sets.
// The language is perf's: [TYPE:]FIELD,…, or +FIELD and -FIELD for changes.
type fieldParser struct {
	sets  [outputTypes]fieldSet
	flags bool
	notes []string // what perf warns of
}

func newFieldParser() *fieldParser { return &fieldParser{sets: defaultFields()} }

func (p *fieldParser) parse(s string) error {
	only := outputType(-1)
	list := s
	if name, rest, ok := strings.Cut(s, ":"); ok {
		t, known := outputNames[name]
		if !known {
			return fmt.Errorf("unknown type of events %q: want hw, sw, trace, raw, break or synth", name)
		}
		only, list = t, rest
	} else if s == "" {
		return fmt.Errorf("no fields: want some of %s", fieldList())
	}
	change := strings.ContainsAny(list, "+-")
	if change {
		// bpf-output has one of these in its name.
		change = strings.ContainsAny(strings.ReplaceAll(list, "bpf-output", ""), "+-")
	}
	if !change {
		p.clear(only)
	}
	for word := range strings.SplitSeq(list, ",") {
		if word == "" {
			continue
		}
		sign := byte(0)
		if word[0] == '+' || word[0] == '-' {
			sign, word = word[0], word[1:]
		}
		if change != (sign != 0) {
			return fmt.Errorf("cannot mix +FIELD and -FIELD with %q", word)
		}
		if err := p.word(only, sign == '-', word); err != nil {
			return err
		}
	}
	return nil
}

// clear forgets the columns of a kind of events, or of all.
func (p *fieldParser) clear(only outputType) {
	for t := range p.sets {
		if only >= 0 && outputType(t) != only {
			continue
		}
		s := &p.sets[t]
		if s.set && (only >= 0 || t == 0) {
			p.notes = append(p.notes, fmt.Sprintf("--fields: an earlier one for %s events is overridden", outputType(t)))
		}
		s.fields, s.asked, s.set, s.typed = 0, 0, true, only >= 0
	}
}

func (p *fieldParser) word(only outputType, remove bool, word string) error {
	if word == "flags" {
		p.flags = !remove
		return nil
	}
	i := slices.IndexFunc(fieldNames, func(f struct {
		name string
		bit  field
		need perfdata.SampleType
		what string
	}) bool {
		return f.name == word
	})
	if i < 0 {
		if why, ok := foreignFields[word]; ok {
			return fmt.Errorf("field %q: %s", word, why)
		}
		return fmt.Errorf("unknown field %q: want some of %s", word, fieldList())
	}
	bit := fieldNames[i].bit
	for t := range p.sets {
		s := &p.sets[t]
		switch {
		case only >= 0 && outputType(t) != only:
			continue
		case s.invalid&bit != 0 && only >= 0:
			return fmt.Errorf("%q is no field of %s events", word, outputType(t))
		case s.invalid&bit != 0:
			continue // as for the others it is one
		case remove:
			s.fields &^= bit
			s.asked &^= bit
		default:
			s.fields |= bit
			s.asked |= bit
		}
		s.set, s.typed = true, only >= 0
	}
	return nil
}

func fieldList() string {
	names := make([]string, len(fieldNames))
	for i, f := range fieldNames {
		names[i] = f.name
	}
	return strings.Join(names, ", ")
}

// bind checks the columns against the events of a recording, and takes away
// what they cannot show, unless it was asked for by name: that is an error.
// chains says whether call chains are printed.
func (p *fieldParser) bind(events []perfdata.Event, chains bool) error {
	var first [outputTypes]*perfdata.Event
	for i := range events {
		t := outputOf(&events[i].Attr)
		if first[t] == nil {
			first[t] = &events[i]
		}
	}
	for t := range p.sets {
		s := &p.sets[t]
		ev := first[t]
		if ev == nil {
			if s.typed && outputType(t) != outputSynth {
				return fmt.Errorf("the recording has no %s events, for which --fields has columns", outputType(t))
			}
			continue
		}
		if err := s.bind(ev); err != nil {
			return err
		}
	}
	tp := &p.sets[outputTracepoint]
	if chains && !tp.set && slices.ContainsFunc(events, func(e perfdata.Event) bool {
		return outputOf(&e.Attr) == outputTracepoint && e.Attr.SampleType&perfdata.SampleCallchain != 0
	}) {
		tp.fields |= fieldsAddress
	}
	return nil
}

func (s *fieldSet) bind(ev *perfdata.Event) error {
	has := ev.Attr.SampleType
	for _, f := range fieldNames {
		if s.fields&f.bit == 0 || f.need == 0 || has&f.need != 0 {
			continue
		}
		if s.asked&f.bit != 0 {
			return fmt.Errorf("samples of %q have no %s: the field %q cannot be shown", ev.Name, f.what, f.name)
		}
		s.fields &^= f.bit
	}
	addresses := has&(perfdata.SampleIP|perfdata.SampleAddr) != 0
	switch {
	case s.fields&fieldSym != 0 && !addresses:
		return fmt.Errorf("samples of %q have no address: the field \"sym\" cannot be shown", ev.Name)
	case s.fields&fieldSymoff != 0 && s.fields&fieldSym == 0:
		return fmt.Errorf("the field \"symoff\" needs \"sym\"")
	case s.fields&fieldDSO != 0 && !addresses:
		return fmt.Errorf("samples of %q have no address: the field \"dso\" cannot be shown", ev.Name)
	case s.fields&fieldSrcline != 0 && s.fields&fieldIP == 0:
		return fmt.Errorf("the field \"srcline\" needs \"ip\"")
	}
	return nil
}
