package main

import (
	"strconv"
	"strings"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/report"
	"github.com/perfark/perfark/session"
)

// A scriptPrinter turns samples into perf's lines. It does not change while
// they are printed: many goroutines share it, and each appends to bytes of its
// own.
type scriptPrinter struct {
	p      *profile.Profile
	events []scriptEvent

	names [][]byte // by function: escaped
	dsos  [][]byte // by object: " (NAME)", then for no object
	files []string // by index into p.Files: as printed

	quick []quickFrame // by location: see prepare; nil: not to be used
	texts []quickText

	big         bool
	nanoseconds bool
	inline      bool
	arch        string
	flags       bool
	maxStack    int
	stop        map[string]bool // functions that a call chain is printed up to
	formats     *traceFormats
	ids         map[uint64]int     // events by the ids of their counters
	clock       perfdata.ClockData // for the field tod
	hasClock    bool
}

// A scriptEvent is how the samples of an event are printed.
type scriptEvent struct {
	fields field
	attr   *perfdata.Attr
	name   []byte // escaped, padded, with what follows it
	chains bool   // call chains are printed, one line a frame
	bts    bool   // each sample is a branch
	sym    bool   // the data address may have a symbol
	raw    bool   // an event of a BPF program
}

// A scriptSample is a sample and where its addresses are.
type scriptSample struct {
	*perfdata.Sample
	comm  string
	time  uint64 // as printed
	loc   int32  // of IP; profile.None: of no mapping
	data  int32  // of Addr
	chain []scriptFrame
	from  []int32 // of the branches
	to    []int32
}

// A scriptFrame is a frame of a call chain.
type scriptFrame struct {
	ip  uint64
	loc int32
}

func newScriptPrinter(f *perfdata.File, res *session.Result) *scriptPrinter {
	p := res.Profile
	sp := &scriptPrinter{p: p, big: f.Header().Big, arch: f.Arch()}
	sp.names = make([][]byte, len(p.Functions))
	for i := range p.Functions {
		sp.names[i] = []byte(escape.Name(p.Functions[i].Name))
	}
	for i := range p.Objects {
		// Objects inside of others, which were found since, come last.
		listed := i < len(res.IDSource) && res.IDSource[i] == session.IDTable
		sp.dsos = append(sp.dsos, dsoText(objectName(&p.Objects[i], listed)))
	}
	unknown := dsoText(report.UnknownDSO)
	sp.dsos = append(sp.dsos, unknown)
	return sp
}

func dsoText(name string) []byte { return []byte(" (" + escape.Name(name) + ")") }

// objectName is the name of an object as perf script has it: the path of a
// file, [kernel.kallsyms] for the kernel. The path of a module only if the
// BUILD_ID section has it, which perf reads first; else [NAME].
func objectName(o *profile.Object, listed bool) string {
	switch o.Kind {
	case profile.KindModule, profile.KindGuestModule:
		if !listed {
			return o.Short
		}
	case profile.KindUnnamed:
		return report.Unnamed
	}
	return o.Path
}

// sample appends the lines of s.
func (sp *scriptPrinter) sample(b []byte, s *scriptSample) []byte {
	ev := &sp.events[s.Event]
	f := ev.fields
	b = sp.start(b, s, ev, f)
	if f&fieldPeriod != 0 {
		b = appendPadded(b, s.Period, 10)
		b = append(b, ' ')
	}
	if f&fieldEvent != 0 {
		b = append(b, ev.name...)
	}
	if sp.flags {
		b = append(b, "                        "...)
	}
	if ev.bts {
		return sp.branch(b, s, ev)
	}
	if f&fieldTrace != 0 && s.Raw != nil {
		b = sp.trace(b, s)
	}
	if f&fieldAddr != 0 {
		b = sp.address(b, s, ev)
	}
	if f&fieldDataSrc != 0 {
		b = appendDataSrc(b, s.DataSrc)
	}
	if f&fieldWeight != 0 {
		b = appendPadded(b, sampleWeight(ev.attr, s.Sample), 16)
	}
	if f&fieldInsLat != 0 {
		b = appendPadded(b, s.Weight>>32&0xffff, 16)
	}
	if f&fieldIP != 0 {
		if ev.chains {
			b = append(b, '\n')
			b = sp.frames(b, s.chain, f)
		} else {
			b = append(b, ' ')
			b = sp.frame(b, s.loc, s.IP, f)
		}
	}
	if f&fieldIregs != 0 {
		b = sp.registers(b, s.IntrABI, ev.attr.SampleRegsIntr, s.IntrRegs)
	}
	if f&fieldUregs != 0 {
		b = sp.registers(b, s.UserABI, ev.attr.SampleRegsUser, s.UserRegs)
	}
	b = sp.branches(b, s, f)
	if ev.raw && f&fieldBPFOutput != 0 {
		b = appendBPFOutput(b, s.Raw)
	}
	if f&fieldPhysAddr != 0 {
		b = appendHex(b, s.PhysAddr, 16)
	}
	if f&fieldDataPage != 0 {
		b = appendPageSize(append(b, ' '), s.DataPage)
	}
	if f&fieldCodePage != 0 {
		b = appendPageSize(append(b, ' '), s.CodePage)
	}
	if f&fieldCgroup != 0 {
		b = append(b, ' ')
		b = append(b, escape.Name(sp.cgroup(s.CgroupID))...)
	}
	return append(b, '\n')
}

func (sp *scriptPrinter) cgroup(id uint64) string {
	if name, ok := sp.p.Cgroups[id]; ok {
		return name
	}
	return "unknown"
}

// start appends what a line begins with: who and when.
func (sp *scriptPrinter) start(b []byte, s *scriptSample, ev *scriptEvent, f field) []byte {
	if f&fieldComm != 0 {
		b = sp.appendComm(b, s.comm, ev)
	}
	b = appendThread(b, s.PID, s.TID, f)
	if f&fieldCPU != 0 {
		b = appendCPU(b, s.CPU)
	}
	if f&fieldMisc != 0 {
		b = appendMisc(b, s.Type, s.Misc)
	}
	if f&fieldTOD != 0 {
		b = sp.timeOfDay(b, s.Time)
	}
	if f&fieldTime != 0 {
		b = sp.appendTime(b, s.time)
	}
	return b
}

// appendComm appends the name of a thread, padded unless call chains follow.
func (sp *scriptPrinter) appendComm(b []byte, name string, ev *scriptEvent) []byte {
	name = escape.Name(name)
	if ev.fields&fieldIP == 0 || !ev.chains {
		for n := len(name); n < 16; n++ {
			b = append(b, ' ')
		}
	}
	b = append(b, name...)
	return append(b, ' ')
}

// appendThread appends the pid and the tid of a line.
func appendThread(b []byte, pid, tid int32, f field) []byte {
	switch {
	case f&fieldPID != 0 && f&fieldTID != 0:
		b = appendInt(b, int64(pid), 5)
		b = append(b, '/')
		n := len(b)
		b = strconv.AppendInt(b, int64(tid), 10)
		for len(b)-n < 5 {
			b = append(b, ' ')
		}
		b = append(b, ' ')
	case f&fieldPID != 0:
		b = append(appendInt(b, int64(pid), 5), ' ')
	case f&fieldTID != 0:
		b = append(appendInt(b, int64(tid), 5), ' ')
	}
	return b
}

func appendCPU(b []byte, cpu int32) []byte {
	b = append(b, '[')
	if cpu >= 0 && cpu < 100 {
		b = append(b, '0')
		if cpu < 10 {
			b = append(b, '0')
		}
	} else if cpu < 0 && cpu > -10 {
		b = append(b, "-0"...)
		cpu = -cpu
	}
	b = strconv.AppendInt(b, int64(cpu), 10)
	return append(b, ']', ' ')
}

// appendTime appends a time in ns, as seconds.
func (sp *scriptPrinter) appendTime(b []byte, t uint64) []byte {
	sec, ns := t/1e9, t%1e9
	if sp.nanoseconds {
		b = appendPadded(b, sec, 5)
		b = append(b, '.')
		b = appendZeros(b, ns, 9)
	} else {
		b = appendPadded(b, sec, 5)
		b = append(b, '.')
		b = appendZeros(b, ns/1000, 6)
	}
	return append(b, ':', ' ')
}

// appendMisc appends the flags of a record, as letters.
func appendMisc(b []byte, typ perfdata.Type, misc uint16) []byte {
	n := len(b)
	for _, m := range [...]struct {
		mode uint16
		c    byte
	}{
		{perfdata.CPUModeKernel, 'K'}, {perfdata.CPUModeUser, 'U'}, {perfdata.CPUModeHypervisor, 'H'},
		{perfdata.CPUModeGuestKernel, 'G'}, {perfdata.CPUModeGuestUser, 'g'},
	} {
		if misc&m.mode == m.mode { // as perf: bits, not numbers
			b = append(b, m.c)
		}
	}
	switch typ {
	case perfdata.RecordMmap, perfdata.RecordMmap2:
		if misc&perfdata.MiscMmapData != 0 {
			b = append(b, 'M')
		}
	case perfdata.RecordComm:
		if misc&perfdata.MiscCommExec != 0 {
			b = append(b, 'E')
		}
	case perfdata.RecordSwitch, perfdata.RecordSwitchCPUWide:
		if misc&perfdata.MiscSwitchOut != 0 {
			b = append(b, 'S')
			if misc&miscSwitchPreempt != 0 {
				b = append(b, 'p')
			}
		}
	}
	const width = 6
	b = append(b, ' ') // at least one
	for len(b)-n < width {
		b = append(b, ' ')
	}
	return b
}

const miscSwitchPreempt = 1 << 14

// frames appends the lines of a call chain.
func (sp *scriptPrinter) frames(b []byte, chain []scriptFrame, f field) []byte {
	n := 0
	if sp.quick != nil && f&frameFields == quickFields {
		b, n = sp.quickFrames(b, chain)
		chain = chain[n:]
	}
	for i := range chain {
		fr := &chain[i]
		var l *profile.Location
		if fr.loc >= 0 {
			l = &sp.p.Locations[fr.loc]
		}
		shown := fr.ip
		if l != nil && inUser(sp.p, l) {
			shown = l.Addr
		}
		if l != nil && sp.inline && l.NFrames > 1 {
			fs := sp.p.FramesOf(l)
			for j := range fs {
				if sp.maxStack > 0 && n >= sp.maxStack {
					return b
				}
				n++
				b = append(b, '\t')
				b = sp.inlined(b, l, fs, j, shown, f)
				b = append(b, '\n')
				if sp.stops(fs[j].Func) {
					return b
				}
			}
			continue
		}
		if sp.maxStack > 0 && n >= sp.maxStack {
			return b
		}
		n++
		b = append(b, '\t')
		b = sp.frame(b, fr.loc, shown, f)
		b = append(b, '\n')
		if l != nil && sp.stop != nil && sp.stops(l.Func) {
			return b
		}
	}
	return b
}

func (sp *scriptPrinter) stops(fn int32) bool {
	return fn >= 0 && sp.stop[sp.p.Functions[fn].Name]
}

// inUser reports whether l is in a user's object: its address in a call chain
// is that in the object.
func inUser(p *profile.Profile, l *profile.Location) bool {
	if l.Object < 0 {
		return false
	}
	switch p.Objects[l.Object].Kind {
	case profile.KindKernel, profile.KindModule, profile.KindBPF, profile.KindGuestKernel, profile.KindGuestModule:
		return false
	}
	return true
}

// frame appends an address, its symbol and its object.
func (sp *scriptPrinter) frame(b []byte, loc int32, shown uint64, f field) []byte {
	if f&fieldIP != 0 {
		b = appendHex(b, shown, 16)
	}
	var l *profile.Location
	if loc >= 0 {
		l = &sp.p.Locations[loc]
	}
	if f&fieldSym != 0 {
		b = append(b, ' ')
		b = sp.symbol(b, l, f)
	}
	if f&fieldDSO != 0 {
		b = append(b, sp.dso(l)...)
	}
	if f&fieldSrcline != 0 {
		b = sp.line(b, l)
	}
	return b
}

// symbol appends the name of the function at l, and how far behind its begin l
// is.
func (sp *scriptPrinter) symbol(b []byte, l *profile.Location, f field) []byte {
	if l == nil || l.Func < 0 {
		return append(b, "[unknown]"...)
	}
	b = append(b, sp.names[l.Func]...)
	if f&fieldSymoff != 0 {
		b = append(b, "+0x"...)
		b = strconv.AppendUint(b, l.Addr-sp.p.Functions[l.Func].Start, 16)
	}
	return b
}

// inlined appends frame j of those at l.
func (sp *scriptPrinter) inlined(b []byte, l *profile.Location, fs []profile.Frame, j int, shown uint64, f field) []byte {
	if f&fieldIP != 0 {
		b = appendHex(b, shown, 16)
	}
	fn, last := fs[j].Func, j == len(fs)-1
	if f&fieldSym != 0 {
		b = append(b, ' ')
		switch {
		case last && l.Func >= 0:
			b = sp.symbol(b, l, f)
		case fn < 0:
			b = append(b, "[unknown]"...)
		default:
			b = append(b, sp.names[fn]...)
			if f&fieldSymoff != 0 && l.Func >= 0 {
				b = append(b, "+0x"...)
				b = strconv.AppendUint(b, l.Addr-sp.p.Functions[l.Func].Start, 16)
			}
		}
	}
	if f&fieldDSO != 0 && last {
		b = append(b, sp.dso(l)...)
	}
	if f&fieldSrcline != 0 {
		b = sp.sourceLine(b, &fs[j], l)
	}
	if !last {
		b = append(b, " (inlined)"...)
	}
	return b
}

// dso returns the object of a location, as it is printed.
func (sp *scriptPrinter) dso(l *profile.Location) []byte {
	if l == nil || l.Object < 0 {
		return sp.dsos[len(sp.p.Objects)]
	}
	return sp.dsos[l.Object]
}

// line appends the source line of a location on a line of its own.
func (sp *scriptPrinter) line(b []byte, l *profile.Location) []byte {
	if l == nil || l.Object < 0 {
		return b
	}
	if fs := sp.p.FramesOf(l); len(fs) > 0 {
		return sp.sourceLine(b, &fs[0], l)
	}
	return sp.sourceLine(b, nil, l)
}

func (sp *scriptPrinter) sourceLine(b []byte, f *profile.Frame, l *profile.Location) []byte {
	b = append(b, "\n  "...)
	if f == nil || f.File < 0 || f.Line == 0 {
		// What perf says instead: the object, and the address in it.
		o := &sp.p.Objects[l.Object]
		b = append(b, escape.Name(o.Short)...)
		b = append(b, '[')
		b = strconv.AppendUint(b, l.Addr, 16)
		return append(b, ']')
	}
	b = append(b, sp.files[f.File]...)
	b = append(b, ':')
	return strconv.AppendInt(b, int64(f.Line), 10)
}

// address appends the data address of a sample.
func (sp *scriptPrinter) address(b []byte, s *scriptSample, ev *scriptEvent) []byte {
	b = appendHex(b, s.Addr, 16)
	if !ev.sym {
		return b
	}
	var l *profile.Location
	if s.data >= 0 {
		l = &sp.p.Locations[s.data]
	}
	if ev.fields&fieldSym != 0 {
		b = append(b, ' ')
		b = sp.symbol(b, l, ev.fields)
	}
	if ev.fields&fieldDSO != 0 {
		b = append(b, sp.dso(l)...)
	}
	return b
}

// branch appends a sample that is a branch: from where to where.
func (sp *scriptPrinter) branch(b []byte, s *scriptSample, ev *scriptEvent) []byte {
	f := ev.fields
	line := f & fieldSrcline
	if f&fieldIP != 0 {
		if ev.chains {
			b = append(b, '\n')
			b = sp.frames(b, s.chain, f)
			line = 0
		} else {
			b = append(b, ' ')
			b = sp.frame(b, s.loc, s.IP, f&^fieldSrcline)
		}
	}
	if f&fieldAddr != 0 || ev.attr.SampleType&perfdata.SampleAddr != 0 {
		b = append(b, " => "...)
		b = sp.address(b, s, ev)
	}
	if line != 0 && s.loc >= 0 {
		b = sp.line(b, &sp.p.Locations[s.loc])
	}
	return append(b, '\n')
}

// branches appends the branch stack of a sample.
func (sp *scriptPrinter) branches(b []byte, s *scriptSample, f field) []byte {
	if f&(fieldBrstack|fieldBrstackSym|fieldBrstackOff) == 0 {
		return b
	}
	at := func(locs []int32, i int) *profile.Location {
		if i < len(locs) && locs[i] >= 0 {
			return &sp.p.Locations[locs[i]]
		}
		return nil
	}
	for i := range s.Branches {
		br := &s.Branches[i]
		from, to := at(s.from, i), at(s.to, i)
		if f&fieldBrstack != 0 || f&fieldBrstackSym == 0 {
			b = append(b, ' ')
		}
		b = sp.branchEnd(b, from, br.From, f)
		b = append(b, '/')
		b = sp.branchEnd(b, to, br.To, f)
		b = appendBranchFlags(b, br.Flags)
	}
	return b
}

func (sp *scriptPrinter) branchEnd(b []byte, l *profile.Location, ip uint64, f field) []byte {
	switch {
	case f&fieldBrstack != 0:
		b = strconv.AppendUint(append(b, "0x"...), ip, 16)
	case f&fieldBrstackSym != 0:
		b = sp.symbol(b, l, f|fieldSymoff)
	default:
		addr := ip
		if l != nil && l.Object >= 0 {
			addr = l.Addr
		}
		b = strconv.AppendUint(append(b, "0x"...), addr, 16)
	}
	if f&fieldDSO != 0 {
		b = append(b, sp.dso(l)[1:]...)
	}
	return b
}

// branchTypes are the names of perf_branch_entry.type.
var branchTypes = [...]string{
	"", "COND", "UNCOND", "IND", "CALL", "IND_CALL", "RET", "SYSCALL", "SYSRET", "COND_CALL", "COND_RET",
	"ERET", "IRQ", "SERROR", "NO_TX", "",
}

// appendBranchFlags appends the flags of a branch.
func appendBranchFlags(b []byte, flags uint64) []byte {
	c := byte('-')
	switch {
	case flags&1 != 0:
		c = 'M'
	case flags&2 != 0:
		c = 'P'
	}
	b = append(b, '/', c, '/')
	c = '-'
	if flags&4 != 0 {
		c = 'X'
	}
	b = append(b, c, '/')
	c = '-'
	if flags&8 != 0 {
		c = 'A'
	}
	b = append(b, c, '/')
	b = strconv.AppendUint(b, flags>>4&0xffff, 10)
	b = append(b, '/')
	b = append(b, branchTypes[flags>>20&15]...)
	return append(b, ' ')
}

// sampleWeight returns the weight of a sample: of the newer kind of record the
// lower half, which is that of the load.
func sampleWeight(a *perfdata.Attr, s *perfdata.Sample) uint64 {
	if a.SampleType&perfdata.SampleWeightStruct != 0 {
		return s.Weight & 0xffffffff
	}
	return s.Weight
}

// registers appends registers.
func (sp *scriptPrinter) registers(b []byte, abi, mask uint64, regs []uint64) []byte {
	if len(regs) == 0 || mask == 0 {
		return b
	}
	b = append(b, " ABI:"...)
	b = strconv.AppendUint(b, abi, 10)
	b = append(b, ' ')
	i := 0
	for r := 0; r < 64 && i < len(regs); r++ {
		if mask>>r&1 == 0 {
			continue
		}
		name := registerName(sp.arch, r)
		for n := len(name); n < 5; n++ {
			b = append(b, ' ')
		}
		b = append(b, name...)
		b = append(b, ":0x"...)
		b = strconv.AppendUint(b, regs[i], 16)
		b = append(b, ' ')
		i++
	}
	return b
}

// appendBPFOutput appends what a BPF program wrote, as a dump of its bytes.
func appendBPFOutput(b []byte, raw []byte) []byte {
	const perLine = 8
	for off := 0; off < len(raw); off += perLine {
		if off == 0 {
			b = append(b, "\n      BPF output: "...)
		} else {
			b = append(b, "\n                  "...)
		}
		b = appendHexZeros(b, uint64(off), 4)
		b = append(b, ':')
		for i := range perLine {
			if off+i < len(raw) {
				b = append(b, ' ')
				b = appendHexZeros(b, uint64(raw[off+i]), 2)
			} else {
				b = append(b, "   "...)
			}
		}
		b = append(b, "  "...)
		for i := range perLine {
			switch {
			case off+i >= len(raw):
				b = append(b, ' ')
			case raw[off+i] >= ' ' && raw[off+i] <= '~':
				b = append(b, raw[off+i])
			default:
				b = append(b, '.')
			}
		}
	}
	b = append(b, '\n')
	// A string is printed as one, too.
	if n := len(raw); n > 0 && raw[n-1] == 0 {
		text := strings.TrimRight(string(raw), "\x00")
		if isPrintable(text) {
			b = append(b, "      BPF string: \""...)
			b = append(b, text...)
			b = append(b, "\"\n"...)
		}
	}
	return b
}

func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}

// appendPageSize appends a size of pages.
func appendPageSize(b []byte, n uint64) []byte {
	if n == 0 {
		return append(b, "N/A"...)
	}
	unit := 0
	for n >= 1024 && unit < 4 {
		n /= 1024
		unit++
	}
	b = strconv.AppendUint(b, n, 10)
	if unit > 0 {
		b = append(b, "?KMGT"[unit])
	}
	return b
}

const hexDigits = "0123456789abcdef"

// appendHex appends v in hex, padded with blanks.
func appendHex(b []byte, v uint64, width int) []byte {
	var buf [16]byte
	i := len(buf)
	for {
		i--
		buf[i] = hexDigits[v&15]
		v >>= 4
		if v == 0 {
			break
		}
	}
	for n := len(buf) - i; n < width; n++ {
		b = append(b, ' ')
	}
	return append(b, buf[i:]...)
}

func appendHexZeros(b []byte, v uint64, width int) []byte {
	for i := width - 1; i >= 0; i-- {
		b = append(b, hexDigits[v>>(4*i)&15])
	}
	return b
}

// appendPadded appends v, padded with blanks.
func appendPadded(b []byte, v uint64, width int) []byte {
	var buf [20]byte
	i := len(buf)
	for {
		i--
		buf[i] = '0' + byte(v%10)
		v /= 10
		if v == 0 {
			break
		}
	}
	for n := len(buf) - i; n < width; n++ {
		b = append(b, ' ')
	}
	return append(b, buf[i:]...)
}

// appendZeros appends v, padded with zeros.
func appendZeros(b []byte, v uint64, width int) []byte {
	n := len(b)
	for range width {
		b = append(b, '0')
	}
	for i := n + width - 1; i >= n; i-- {
		b[i] = '0' + byte(v%10)
		v /= 10
	}
	return b
}

func appendInt(b []byte, v int64, width int) []byte {
	if v >= 0 {
		return appendPadded(b, uint64(v), width)
	}
	s := strconv.FormatInt(v, 10)
	for n := len(s); n < width; n++ {
		b = append(b, ' ')
	}
	return append(b, s...)
}
