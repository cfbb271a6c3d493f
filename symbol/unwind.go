package symbol

import (
	"context"

	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/objfile"
	"github.com/perfark/perfark/profile"
	"github.com/perfark/perfark/store"
	"github.com/perfark/perfark/unwind"
)

// Rules returns what session.Options.Unwind wants: the call frame information
// of objects, from the files of src. As with names, no file with another Build
// ID than the recorded one is used. Objects without rules have none: their
// frames end a stack, as those of missing files do, which Resolve explains.
func Rules(ctx context.Context, src store.Source, limits decode.Limits) func(*profile.Object) *unwind.Module {
	r := &resolver{o: Options{Source: src, Limits: limits}}
	return func(obj *profile.Object) *unwind.Module {
		kind := store.ELF
		if obj.Kind == profile.KindVDSO {
			kind = store.VDSO
		}
		b := decode.NewBudget(limits)
		f, sf, err := r.open(ctx, key(obj, kind), b)
		if err != nil {
			return nil
		}
		defer closeFile(sf)
		m, _ := unwind.NewModule(f, nil, b)
		if !m.Empty() || kind == store.VDSO || f.BuildID() == "" {
			return m
		}
		return withDebug(ctx, r, f, obj, b, m)
	}
}

// withDebug looks for .debug_frame in the separate debug file of f.
func withDebug(ctx context.Context, r *resolver, f *objfile.File, obj *profile.Object, b *decode.Budget, m *unwind.Module) *unwind.Module {
	k := key(obj, store.Debug)
	k.ID = f.BuildID()
	debug, df, err := r.open(ctx, k, b)
	if err != nil {
		return m
	}
	defer closeFile(df)
	m, _ = unwind.NewModule(f, debug, b)
	return m
}
