//go:build !linux

package capture

import (
	"context"
	"time"
)

func cpuTime() time.Duration { return 0 }

// Memory returns 0: it is not known here.
func Memory() int64 { return 0 }

// WithMemory returns ctx: there is no watch here.
func WithMemory(ctx context.Context, limit int64) (context.Context, func()) { return ctx, func() {} }

// Nice does nothing here.
func Nice(int) error { return nil }
