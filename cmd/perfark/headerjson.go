package main

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/perfdata"
)

// The JSON of perfark header and evlist. Fields are added, never changed.
// Strings are escaped as for a terminal.
type (
	jsonHeader struct {
		File        string         `json:"file"`
		CapturedOn  string         `json:"captured_on,omitempty"` // RFC 3339: time the file was last changed
		Format      string         `json:"format"`                // file, pipe, directory
		Magic       string         `json:"magic"`
		ByteOrder   string         `json:"byte_order"` // little, big
		Compression string         `json:"compression,omitempty"`
		Version     int            `json:"header_version"`
		DataOffset  uint64         `json:"data_offset"`
		DataSize    uint64         `json:"data_size"`
		FeatOffset  uint64         `json:"feat_offset"`
		Killed      bool           `json:"killed,omitempty"`
		Truncated   bool           `json:"truncated,omitempty"`
		Events      []jsonEvent    `json:"events"`
		Features    map[string]any `json:"features"`          // by perf's name of the feature
		Missing     []string       `json:"missing,omitempty"` // features that are not there
		Warnings    []string       `json:"warnings,omitempty"`
		Damage      []jsonDamage   `json:"damage,omitempty"`
	}

	jsonEvent struct {
		Name string         `json:"name"`
		IDs  []uint64       `json:"ids,omitempty"`
		Unit string         `json:"unit,omitempty"`
		Attr map[string]any `json:"attr"` // fields that are not 0
	}

	jsonDamage struct {
		File   string `json:"file"`
		Offset int64  `json:"offset"`
		Bytes  int64  `json:"bytes,omitempty"`
		What   string `json:"what"`
	}
)

func jsonHeaderOf(f *perfdata.File) jsonHeader {
	h := f.Header()
	j := jsonHeader{
		File:        escape.Name(f.Name()),
		Format:      "file",
		Magic:       h.Magic,
		ByteOrder:   "little",
		Compression: h.Wrapped,
		Version:     h.Version,
		DataOffset:  h.Data.Offset,
		DataSize:    h.Data.Size,
		FeatOffset:  h.Data.Offset + h.Data.Size,
		Killed:      h.Killed,
		Truncated:   h.Truncated,
		Events:      jsonEvents(f),
		Features:    map[string]any{},
	}
	if !h.ModTime.IsZero() {
		j.CapturedOn = h.ModTime.UTC().Format(time.RFC3339)
	}
	if h.Big {
		j.ByteOrder = "big"
	}
	switch {
	case h.Pipe:
		j.Format = "pipe"
	case h.Dir:
		j.Format = "directory"
	}
	for _, bit := range f.Features() {
		if v := jsonFeature(f, bit); v != nil {
			j.Features[perfdata.FeatureName(bit)] = v
		}
	}
	if !h.Pipe {
		for bit := 1; bit <= perfdata.FeatureClnSize; bit++ {
			if !h.Has(bit) {
				j.Missing = append(j.Missing, perfdata.FeatureName(bit))
			}
		}
	}
	for _, w := range f.Warnings() {
		j.Warnings = append(j.Warnings, escape.Name(w))
	}
	for _, d := range f.Damage() {
		j.Damage = append(j.Damage, jsonDamage{escape.Name(d.Name), d.Offset, d.Len, escape.Name(d.What)})
	}
	return j
}

func jsonEvents(f *perfdata.File) []jsonEvent {
	list := []jsonEvent{}
	for i := range f.Events() {
		e := &f.Events()[i]
		list = append(list, jsonEvent{Name: escape.Name(e.Name), IDs: e.IDs, Unit: escape.Name(e.Unit), Attr: jsonAttr(&e.Attr)})
	}
	return list
}

// jsonAttr has numbers for the fields of an attr that are not 0, by their
// names in perf_event.h, and names for its bit sets.
func jsonAttr(a *perfdata.Attr) map[string]any {
	m := map[string]any{"type": a.Type, "size": a.Size, "config": a.Config}
	add := func(name string, v uint64) {
		if v != 0 {
			m[name] = v
		}
	}
	if a.Flags.Has(perfdata.FlagFreq) {
		add("sample_freq", a.SamplePeriod)
	} else {
		add("sample_period", a.SamplePeriod)
	}
	set := func(name string, v uint64, table []bitName) {
		names := []string{}
		for _, b := range table {
			if v>>b.bit&1 != 0 {
				names = append(names, b.name)
				v &^= 1 << b.bit
			}
		}
		if v != 0 {
			names = append(names, fmt.Sprintf("%#x", v))
		}
		if len(names) > 0 {
			m[name] = names
		}
	}
	set("sample_type", uint64(a.SampleType), append(sampleBits[:len(sampleBits):len(sampleBits)], bitName{17, "TRANSACTION"}))
	set("read_format", uint64(a.ReadFormat), readBits)
	set("branch_sample_type", a.BranchSampleType, branchBits)
	var flags []bitName
	for _, b := range attrFlags {
		if b.name != "precise_ip" {
			flags = append(flags, b)
		}
	}
	set("flags", uint64(a.Flags&^perfdata.FlagPreciseIP), flags)
	add("precise_ip", uint64(a.Flags.Precise()))
	add("wakeup_events", uint64(a.WakeupEvents))
	add("bp_type", uint64(a.BPType))
	add("config1", a.Config1)
	add("config2", a.Config2)
	add("sample_regs_user", a.SampleRegsUser)
	add("sample_stack_user", uint64(a.SampleStackUser))
	if a.Flags.Has(perfdata.FlagUseClockID) {
		m["clockid"] = a.ClockID
	}
	add("sample_regs_intr", a.SampleRegsIntr)
	add("aux_watermark", uint64(a.AuxWatermark))
	add("sample_max_stack", uint64(a.SampleMaxStack))
	add("aux_sample_size", uint64(a.AuxSampleSize))
	add("aux_action", uint64(a.AuxAction))
	add("sig_data", a.SigData)
	add("config3", a.Config3)
	add("config4", a.Config4)
	return m
}

// An object is a JSON object.
type object = map[string]any

// list maps f over v; it is never nil.
func list[T any](v []T, f func(T) any) []any {
	out := []any{}
	for _, x := range v {
		out = append(out, f(x))
	}
	return out
}

func text(s string) any { return escape.Name(s) }

// jsonFeature returns what a feature holds. Of data that is for other tools
// (formats of tracepoints, BPF, features that are not known) it gives the size.
func jsonFeature(f *perfdata.File, bit int) any {
	switch v := f.Feature(bit).(type) {
	case string:
		return text(v)
	case uint32:
		return v
	case uint64:
		return v
	case []string:
		return list(v, text)
	case []byte:
		if bit == perfdata.FeatureBranchStack || bit == perfdata.FeatureStat {
			return true
		}
		return object{"bytes": len(v)}
	case perfdata.BuildIDTable:
		return list(v.Records, func(r *perfdata.BuildIDRecord) any {
			return object{"build_id": r.BuildID.String(), "name": text(r.Name), "cpumode": r.Misc & perfdata.MiscCPUModeMask, "pid": r.MachinePID}
		})
	case perfdata.NRCPUs:
		return object{"online": v.Online, "avail": v.Avail}
	case perfdata.EventDescs:
		return list(v.Events, func(e perfdata.EventDesc) any { return text(e.Name) })
	case perfdata.CPUTopology:
		o := object{"sibling_sockets": list(v.Cores, text), "sibling_threads": list(v.Threads, text)}
		if v.HasDies {
			o["sibling_dies"] = list(v.Dies, text)
		}
		o["cpus"] = list(v.CPUs, func(c perfdata.CPUPlace) any {
			p := object{"core": c.Core, "socket": c.Socket}
			if v.HasDies {
				p["die"] = c.Die
			}
			return p
		})
		return o
	case []perfdata.NUMANode:
		return list(v, func(n perfdata.NUMANode) any {
			return object{"node": n.Node, "total_kb": n.Total, "free_kb": n.Free, "cpus": text(n.CPUs)}
		})
	case []perfdata.PMUMapping:
		return list(v, func(m perfdata.PMUMapping) any { return object{"type": m.Type, "name": text(m.Name)} })
	case []perfdata.GroupDesc:
		return list(v, func(g perfdata.GroupDesc) any {
			return object{"name": text(g.Name), "leader": g.Leader, "members": g.Members}
		})
	case perfdata.AuxtraceIndex:
		n := 0
		for _, b := range v {
			n += len(b)
		}
		return object{"records": n}
	case perfdata.Caches:
		return list(v.Levels, func(l perfdata.CacheLevel) any {
			return object{
				"level": l.Level, "line_size": l.LineSize, "sets": l.Sets, "ways": l.Ways,
				"type": text(l.Type), "size": text(l.Size), "cpus": text(l.CPUs),
			}
		})
	case perfdata.SampleTimes:
		return object{"first_ns": v.First, "last_ns": v.Last}
	case perfdata.MemTopology:
		return object{"block_size": v.BlockSize, "nodes": list(v.Nodes, func(n perfdata.MemNode) any {
			return object{"node": n.Node, "blocks": bitList(n.Set, n.Size)}
		})}
	case []perfdata.BPFProg:
		names := f.BPFNames()
		return list(v, func(p perfdata.BPFProg) any {
			funcs := []any{}
			for i, fn := range p.Funcs {
				funcs = append(funcs, object{
					"name": text(names.Func(&p, i)), "addr": fn.Addr, "size": fn.Size, "tag": hex.EncodeToString(fn.Tag[:]),
				})
			}
			return object{"id": p.ID, "name": text(p.Name), "btf_id": p.BTFID, "functions": funcs}
		})
	case []perfdata.BTF:
		return list(v, func(b perfdata.BTF) any { return object{"id": b.ID, "bytes": len(b.Data)} })
	case perfdata.Compressed:
		return object{"version": v.Version, "type": v.Type, "level": v.Level, "ratio": v.Ratio, "mmap_len": v.MmapLen}
	case []perfdata.Cap:
		return jsonCaps(v)
	case perfdata.ClockData:
		return object{"clockid": v.ClockID, "clock": clockName(v.ClockID), "wall_clock_ns": v.WallTime, "clock_ns": v.Time}
	case []perfdata.HybridPMU:
		return list(v, func(h perfdata.HybridPMU) any { return object{"pmu": text(h.PMU), "cpus": text(h.CPUs)} })
	case []perfdata.PMUCaps:
		return list(v, func(p perfdata.PMUCaps) any { return object{"pmu": text(p.PMU), "caps": jsonCaps(p.Caps)} })
	case perfdata.CPUDomainInfo:
		return object{"schedstat_version": v.Version, "max_domains": v.MaxDomains, "cpus": list(v.CPUs, func(c perfdata.CPUDomains) any {
			return object{"cpu": c.CPU, "domains": list(c.Domains, func(d perfdata.CPUDomain) any {
				return object{"domain": d.Domain, "name": text(d.Name), "cpumask": text(d.CPUMask), "cpus": text(d.CPUs)}
			})}
		})}
	case perfdata.EMachine:
		return object{"machine": v.Machine, "flags": v.Flags}
	}
	return nil
}

func jsonCaps(v []perfdata.Cap) any {
	return list(v, func(c perfdata.Cap) any { return object{"name": text(c.Name), "value": text(c.Value)} })
}
