//go:build iced

package main

import "testing"

func needIced(*testing.T) {}
