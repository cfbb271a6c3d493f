package main

import (
	"context"

	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
)

// code returns what gives the code that processes of a recording made at run
// time, as far as they wrote a jitdump. Nothing is opened before the first is
// asked for; done closes it.
func (a *app) code(ctx context.Context, in *input) (log func(*profile.Object) *session.CodeLog, done func()) {
	var open *sources
	var get func(*profile.Object) *session.CodeLog
	log = func(o *profile.Object) *session.CodeLog {
		if get == nil {
			var src store.Source = store.Multi()
			if s, err := a.openSources(ctx, in.File, &session.Result{}, in.uid); err == nil {
				open, src = s, s
			}
			get = symbol.Code(ctx, in.sources(src), a.limits)
		}
		return get(o)
	}
	return log, func() {
		if open != nil {
			open.Close()
		}
	}
}

// untimedCode says of which code it is not known when it was where.
func (a *app) untimedCode(res *session.Result) {
	for _, i := range res.UntimedCode {
		if o := &res.Profile.Objects[i]; o.Samples > 0 {
			a.notef("%s: the recording was not made with the clock of this file, so that code that lay at one address after the other cannot be told apart", objectText(res.Profile, i))
			a.hintf("perf record -k mono …")
		}
	}
}
