package main

import (
	"context"
	"fmt"

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
