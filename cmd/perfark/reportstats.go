package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/internal/escape"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/session"
)

// printStats prints how many records of each type there are, as perf report
// --stats does.
func (c *reportCmd) printStats(ctx context.Context, in *input) error {
	res, err := c.load(ctx, in, session.Options{Workers: c.workers, HitsOnly: true})
	if err != nil {
		return err
	}
	st := &res.Stats
	lost := make([]uint64, len(st.Samples))
	if st.Types[perfdata.RecordLostSamples] > 0 {
		if lost, err = lostSamples(ctx, in); err != nil {
			return err
		}
	}
	if c.json {
		types := make(map[string]uint64)
		for t, n := range st.Types {
			if n > 0 {
				types[perfdata.Type(t).String()] = n
			}
		}
		type event struct {
			Event   string `json:"event"`
			Samples uint64 `json:"samples"`
			Lost    uint64 `json:"lost_samples"`
		}
		events := []event{}
		for i, n := range st.Samples {
			events = append(events, event{in.Events()[i].Name, n, lost[i]})
		}
		if err := c.printJSON(map[string]any{"total": st.Total, "types": types, "other": st.Other, "bad": st.Bad, "events": events}); err != nil {
			return err
		}
		return c.lossError(in, res)
	}
	w := c.stdout
	fmt.Fprintf(w, "\nAggregated stats:\n%16s events: %10d\n", "TOTAL", st.Total)
	line := func(name string, n uint64) {
		if n > 0 || !c.skipEmpty {
			fmt.Fprintf(w, "%16s events: %10d  (%4.1f%%)\n", name, n, 100*float64(n)/float64(max(st.Total, 1)))
		}
	}
	for t, n := range st.Types {
		if t > 0 && (n > 0 || perfdata.Type(t).Known()) {
			line(perfdata.Type(t).String(), n)
		}
	}
	line("UNKNOWN", st.Other)
	for i, n := range st.Samples {
		if n > 0 || !c.skipEmpty {
			fmt.Fprintf(w, "%s stats:\n%16s events: %10d\n", escape.Name(in.Events()[i].Name), "SAMPLE", n)
			if lost[i] > 0 {
				fmt.Fprintf(w, "%16s events: %10d\n", "LOST_SAMPLES", lost[i])
			}
		}
	}
	return c.lossError(in, res)
}

// lostSamples counts the samples that the kernel lost of each event.
func lostSamples(ctx context.Context, in *input) ([]uint64, error) {
	of := make(map[uint64]int)
	for i, e := range in.Events() {
		for _, id := range e.IDs {
			of[id] = i
		}
	}
	lost := make([]uint64, len(in.Events()))
	d := perfdata.NewDecoder(in.File)
	err := session.EachRecord(ctx, in.File, func(typ perfdata.Type, rec []byte, at int64) {
		if typ != perfdata.RecordLostSamples {
			return
		}
		r, err := d.Decode(rec, at)
		if l, ok := r.(*perfdata.Lost); err == nil && ok && of[l.ID] < len(lost) {
			lost[of[l.ID]] += l.Count // without an id: the first
		}
	})
	return lost, err
}

// A counted is what a thread counted while it ran.
type counted struct {
	time     uint64 // ns, of the first record of it
	pid, tid int32
	values   []uint64 // by event
}

// printThreads prints what threads counted, as perf report -T does: the READ
// records that the kernel wrote when they ended, added up over the processors.
func (c *reportCmd) printThreads(ctx context.Context, in *input) error {
	var list []*counted
	of := make(map[[2]int32]*counted)
	events := in.Events()
	seen := make([]bool, len(events))
	d := perfdata.NewDecoder(in.File)
	err := session.EachRecord(ctx, in.File, func(typ perfdata.Type, rec []byte, at int64) {
		if typ != perfdata.RecordRead {
			return
		}
		r, err := d.Decode(rec, at)
		x, ok := r.(*perfdata.Read)
		if err != nil || !ok || x.Event < 0 || x.Event >= len(events) || len(x.Values) == 0 {
			return
		}
		id := [2]int32{x.TaskPID, x.TaskTID}
		if of[id] == nil {
			of[id] = &counted{x.Time, x.TaskPID, x.TaskTID, make([]uint64, len(events))}
			list = append(list, of[id])
		}
		of[id].time = min(of[id].time, x.Time)
		of[id].values[x.Event] += x.Values[0].Value
		seen[x.Event] = true
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(a, b *counted) int { return cmp.Compare(a.time, b.time) })
	rows := [][]string{{"PID", "TID"}}
	for i, e := range events {
		if seen[i] {
			rows[0] = append(rows[0], escape.Name(e.Name))
		}
	}
	for _, x := range list {
		row := []string{strconv.Itoa(int(x.pid)), strconv.Itoa(int(x.tid))}
		for i, v := range x.values {
			if seen[i] {
				row = append(row, strconv.FormatUint(v, 10))
			}
		}
		rows = append(rows, row)
	}
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], len(cell))
		}
	}
	for n, row := range rows {
		line := "  "
		if n == 0 {
			line = "# "
		}
		for i, cell := range row {
			if i > 0 {
				line += "  "
			}
			line += strings.Repeat(" ", width[i]-len(cell)) + cell
		}
		fmt.Fprintln(c.stdout, line)
	}
	return nil
}
