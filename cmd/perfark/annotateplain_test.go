//go:build !iced

package main

import "testing"

func needIced(t *testing.T) { t.Skip("compares every instruction: for builds with -tags iced") }
