package main

import (
	"context"
	"sync"

	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/session"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/symbol"
	"github.com/perfark/perfark/unwind"
)

// lazyFiles gives a load what it needs of files: the code that processes of
// the recording made at run time, as far as they wrote a jitdump, and the
// rules by which user stacks are unwound. Nothing is opened before the first
// is asked for; done closes it.
func (a *app) lazyFiles(ctx context.Context, in *input, o *session.Options) (done func()) {
	var open *sources
	src := sync.OnceValue(func() store.Source {
		s, err := a.openSources(ctx, in.recorded(), &session.Result{}, in.uid)
		if err != nil {
			return store.Multi() // the command opens them again for names, and says why it cannot
		}
		open = s
		return in.sources(s)
	})
	code := sync.OnceValue(func() func(*profile.Object) *session.CodeLog { return symbol.Code(ctx, src(), a.limits) })
	rules := sync.OnceValue(func() func(*profile.Object) *unwind.Module { return symbol.Rules(ctx, src(), a.limits) })
	o.Code = func(obj *profile.Object) *session.CodeLog { return code()(obj) }
	o.Unwind = func(obj *profile.Object) *unwind.Module { return rules()(obj) }
	return func() {
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
