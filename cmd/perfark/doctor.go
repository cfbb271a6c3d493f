package main

import (
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/symbol"
)

// summary is the last line of a report, on standard error: how much of the
// recording has a name, and which command tells the rest. Where nothing is
// missing there is nothing to say.
func (a *app) summary(in *input, res *session.Result, out *symbol.Outcome) {
	if len(out.Missing()) == 0 && res.Profile.Lost.Events+res.Profile.Lost.Samples == 0 && !res.Partial() {
		return
	}
	if in.uid < 0 && in.bundle == nil {
		a.notef("%s", out.Coverage) // standard input, which is gone
		return
	}
	a.notef("%s; perfark doctor %s tells what would help", out.Coverage, shellQuote(in.Name()))
}
