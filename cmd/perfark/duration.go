package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A durationValue is a flag's time, given as time.ParseDuration takes it, or as
// a number of days such as 7d.
type durationValue time.Duration

// Set parses s.
func (v *durationValue) Set(s string) error {
	const day = 24 * time.Hour
	d, err := time.ParseDuration(s)
	if n, ok := strings.CutSuffix(s, "d"); ok {
		var days float64
		days, err = strconv.ParseFloat(n, 64)
		if !(days >= 0 && days <= 36500) {
			days = -1
		}
		d = time.Duration(days * float64(day))
	}
	if err != nil || d <= 0 {
		return fmt.Errorf("%q is not a time such as 500ms, 20s, 10m, 1h30m or 7d", s)
	}
	*v = durationValue(d)
	return nil
}

// String returns the time as Set takes it, "" for 0.
func (v *durationValue) String() string {
	if *v == 0 {
		return ""
	}
	return time.Duration(*v).String()
}

// Type names the kind of value in the help.
func (v *durationValue) Type() string { return "TIME" }
