package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// A sizeValue is a flag's value in bytes, given as a number with or without
// one of the letters K, M, G, T, which stand for powers of 1024.
type sizeValue int64

// Set parses s.
func (v *sizeValue) Set(s string) error {
	num := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(s), "B"), "I")
	shift := 0
	if num != "" {
		if i := strings.IndexByte("KMGT", num[len(num)-1]); i >= 0 {
			shift = 10 * (i + 1)
			num = num[:len(num)-1]
		}
	}
	n, err := strconv.ParseInt(num, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return fmt.Errorf("%q is not a size such as 500, 64K, 20M or 4G", s)
	}
	*v = sizeValue(n << shift)
	return nil
}

// String returns the size as Set takes it, "" for 0.
func (v *sizeValue) String() string {
	if *v == 0 {
		return ""
	}
	n, unit := int64(*v), ""
	for _, u := range []string{"K", "M", "G", "T"} {
		if n%1024 != 0 {
			break
		}
		n, unit = n/1024, u
	}
	return strconv.FormatInt(n, 10) + unit
}

// Type names the kind of value in the help.
func (v *sizeValue) Type() string { return "SIZE" }

// maxJobs is more than any machine has processors worth using. Each job has
// buffers of its own, so what comes out would not be another, only later.
const maxJobs = 1024

// A jobsValue is a flag's number of processors; 0 is all there are.
type jobsValue int

// addJobsFlag adds --jobs, which sets n.
func addJobsFlag(cmd *cobra.Command, n *int) {
	cmd.Flags().VarP((*jobsValue)(n), "jobs", "j", "use `N` processors (default: all)")
}

// Set parses s.
func (v *jobsValue) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > maxJobs {
		return fmt.Errorf("want a number from 0 to %d", maxJobs)
	}
	*v = jobsValue(n)
	return nil
}

// String returns the number as Set takes it, "" for 0.
func (v *jobsValue) String() string {
	if *v == 0 {
		return ""
	}
	return strconv.Itoa(int(*v))
}

// Type names the kind of value in the help.
func (v *jobsValue) Type() string { return "N" }

// bytesText writes a number of bytes for people: 1.5 MB, powers of 1000.
func bytesText(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, i := float64(n)/1000, 0
	for f >= 999.95 && i < len(units)-1 {
		f, i = f/1000, i+1
	}
	return fmt.Sprintf("%.1f %cB", f, units[i])
}
