package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/perfark/perfark/browse"
	"github.com/perfark/perfark/perfdata"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
)

// pages are what --header and -T show before the table.
func (b *reportBrowser) pages(ctx context.Context, in *input) ([]browse.Page, error) {
	var out []browse.Page
	c := *b.c
	var text bytes.Buffer
	c.app = b.c.within(&text, io.Discard, nil)
	if c.header {
		if err := writeHeader(c.stdout, in.File, headerOptions{all: c.info}); err != nil {
			return nil, err
		}
		c.stdout.Flush()
		out = append(out, browse.Page{Name: "the header of " + in.Name(), Text: text.String()})
	}
	text.Reset()
	if c.threads {
		if err := c.printThreads(ctx, in); err != nil {
			return nil, err
		}
		c.stdout.Flush()
		s := text.String()
		if strings.TrimSpace(s) == "" {
			s = "nothing was counted by thread: see perf record -s"
		}
		out = append(out, browse.Page{Name: "what threads counted", Text: s})
	}
	return out, nil
}

// errEnough is why samples are not printed any further.
var errEnough = errors.New("enough")

// A portion keeps so many bytes of what is written, and then is full.
type portion struct {
	b    bytes.Buffer
	most int
	full func()
}

func (p *portion) Write(b []byte) (int, error) {
	if n := p.most - p.b.Len(); n < len(b) {
		p.b.Write(b[:n])
		p.full()
		return n, errEnough
	}
	return p.b.Write(b)
}

// samples returns what perfark script prints of the samples of a selection, the
// first of them if it is more than anybody reads.
func (b *reportBrowser) samples(ctx context.Context, name, times string, s browse.Selection) (string, error) {
	const most = 4 << 20
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	text := &portion{most: most, full: func() { cancel(errEnough) }}
	c, _ := scriptCommand(&app{env: b.c.env})
	c.app = b.c.within(text, b.notes, func(string, int64, int64) {})
	c.filterFlags, c.symbolFlags, c.workers = b.c.filterFlags, b.c.symbolFlags, b.c.workers
	if times != "" {
		c.times = times
	}
	if name != b.name {
		c.input = ""
	}
	c.only = func(p *profile.Profile, e *session.Event, sample *perfdata.Sample) bool {
		return selected(p, e, sample, s)
	}
	err := c.run(ctx, name)
	c.stdout.Flush()
	out := text.b.String()
	switch {
	case text.b.Len() == most:
		out = fmt.Sprintf("the first %d MB of what perfark script prints of them:\n\n%s", most>>20, out[:strings.LastIndexByte(out, '\n')+1])
	case out == "" && err != nil:
		return "", err
	case out == "":
		out = "none"
	}
	return out, nil
}

// selected reports whether a sample is one of those that are meant.
func selected(p *profile.Profile, e *session.Event, sample *perfdata.Sample, s browse.Selection) bool {
	if s.Event != "" && (sample.Event < 0 || sample.Event >= len(p.Events) || p.Events[sample.Event].Name != s.Event) ||
		s.Comm != "" && e.Comm != s.Comm {
		return false
	}
	if s.DSO == "" && s.Symbol == "" {
		return true
	}
	if e.Location < 0 {
		return false
	}
	l := &p.Locations[e.Location]
	switch {
	case s.DSO != "" && (l.Object < 0 || p.Objects[l.Object].Short != s.DSO):
		return false
	case s.Symbol == "":
		return true
	}
	return l.Func >= 0 && p.Functions[l.Func].Name == s.Symbol
}
