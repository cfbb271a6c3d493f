package redact

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/perfark/perfark/perfdata"
)

// learnFeatures calls do for each text of the features.
func (r *Redactor) learnFeatures(do func(string, field)) {
	for _, bit := range r.f.Features() {
		v := r.f.Feature(bit)
		if args, ok := v.([]string); ok && bit == perfdata.FeatureCmdline {
			r.learnCmdline(args, do)
			continue
		}
		featureTexts(bit, v, func(s string, f field) string { do(s, f); return s })
	}
	for _, e := range r.f.Events() {
		do(e.Name, fieldEvent)
	}
	if b, _, err := r.f.FeatureData(perfdata.FeatureTracingData); err == nil && len(b) > 0 {
		// An error is found again when it is written.
		_, _ = walkTracing(b, func(what string, text []byte) []byte {
			if what == savedCmdlines {
				eachComm(text, func(c string) string { do(c, fieldComm); return c })
			}
			return text
		})
	}
}

// featureTexts replaces each text of a decoded feature, but for those of
// command lines, and returns the feature. known is false for features that
// have no texts, or whose texts are within other data.
func featureTexts(bit int, v any, do func(string, field) string) (out any, known bool) {
	switch bit {
	case perfdata.FeatureHostname:
		s, ok := v.(string)
		return do(s, fieldHost), ok
	case perfdata.FeatureOSRelease:
		s, ok := v.(string)
		return do(s, fieldRelease), ok
	case perfdata.FeatureVersion:
		s, ok := v.(string)
		return do(s, fieldVersion), ok
	}
	switch v := v.(type) {
	case string:
		return do(v, fieldHeader), true
	case perfdata.BuildIDTable:
		for _, b := range v.Records {
			b.Name = do(b.Name, fieldPath)
		}
		return v, true
	case perfdata.EventDescs:
		for i := range v.Events {
			v.Events[i].Name = do(v.Events[i].Name, fieldEvent)
		}
		return v, true
	case []perfdata.GroupDesc:
		for i := range v {
			v[i].Name = do(v[i].Name, fieldEvent)
		}
		return v, true
	case []perfdata.PMUMapping:
		for i := range v {
			v[i].Name = do(v[i].Name, fieldHeader)
		}
		return v, true
	}
	return v, false
}

// feature returns the payload of a feature without names; ok is false if it is
// left out.
func (r *Redactor) feature(bit int, b []byte, off int64) (out []byte, ok bool) {
	big := r.f.Header().Big
	if perfdata.FeatureName(bit) == fmt.Sprintf("feature %d", bit) {
		if r.p.Unknown != Keep {
			r.dropped["unknown "+perfdata.FeatureName(bit)]++
			return nil, false
		}
		return r.masked(b), true
	}
	if bit == perfdata.FeatureTracingData {
		out, err := r.tracingBlob(b)
		if err != nil {
			r.dropped["tracing data that is damaged"]++
			return nil, false
		}
		return out, true
	}
	v, err := perfdata.DecodeFeature(bit, b, off, big)
	if err != nil {
		r.dropped["damaged feature "+perfdata.FeatureName(bit)]++
		return nil, false
	}
	switch v := v.(type) {
	case []string: // CMDLINE
		return perfdata.AppendFeature(nil, bit, r.cmdline(v), big), true
	case perfdata.Compressed:
		// Readers take the length of the ring for that of a piece.
		v.MmapLen = max(v.MmapLen, 1<<16)
		return perfdata.AppendFeature(nil, bit, v, big), true
	}
	if new, known := featureTexts(bit, v, r.place); known {
		return perfdata.AppendFeature(nil, bit, new, big), true
	}
	return r.masked(b), true
}

// masked returns binary data in which names are overwritten.
func (r *Redactor) masked(b []byte) []byte {
	b = append([]byte{}, b...)
	r.mask(b, fieldBinary)
	return b
}

// learnCmdline notes the names in the command line of perf.
func (r *Redactor) learnCmdline(args []string, do func(string, field)) {
	n := commandAt(args)
	for i, a := range args {
		f := fieldHeader
		if i >= n {
			f = fieldCmdline
		}
		do(a, f)
		if i == 0 {
			continue
		}
		prev := args[i-1]
		switch {
		case r.p.Environment == Mask && secretFlag.MatchString(prev) && !strings.HasPrefix(a, "-"):
			r.addSecret(a)
		case r.p.Environment == Mask && takesUser(prev) && strings.Contains(a, ":"):
			_, pass, _ := strings.Cut(a, ":")
			r.addSecret(pass)
		case r.p.Users == Mask && (prev == "-u" || prev == "--uid") && userName.MatchString(a):
			for u := range strings.SplitSeq(a, ",") {
				r.addUser(u, "")
			}
		}
	}
}

var (
	userName = regexp.MustCompile(`^[a-z_][a-z0-9_.-]*(,[a-z_][a-z0-9_.-]*)*$`)
	longFlag = regexp.MustCompile(`^--[a-z][a-z-]*$`)
	// What options of perf take that says nothing of anybody: numbers, lists of
	// processors, sizes, times, modes.
	plainValue = regexp.MustCompile(`^(?:[0-9][0-9,.:x-]*[BKMGTsmhd]?|fp|lbr|dwarf(?:,[0-9]+)?|max|any[a-z_,]*|no|none|signal|cpu|node|sys|mono|monotonic|raw|real|boot|tai|-)$`)
	eventValue = regexp.MustCompile(`^[A-Za-z0-9_:/=,.{}*?-]+$`)
)

// shortValues are the short options of perf that take a value.
const shortValues = "FceCptuGmDkoj"

// longValues are the long ones.
var longValues = map[string]bool{}

func init() {
	for _, f := range strings.Fields(`freq count event cpu pid tid uid cgroup mmap-pages delay clockid output branch-filter
		call-graph max-size filter user-regs intr-regs aux-sample affinity buildid-dir switch-max-files realtime
		vmlinux proc-map-timeout threads control input`) {
		longValues["--"+f] = true
	}
}

// cmdline returns the command line of perf: with its options and the name of
// the command, but without the arguments of that.
func (r *Redactor) cmdline(args []string) []string {
	switch {
	case len(args) == 0:
		return args
	case r.p.Cmdline == Keep:
		out := make([]string, len(args))
		for i, a := range args {
			out[i] = r.text(a, fieldCmdline)
		}
		return out
	}
	out := []string{r.swap(args[0], r.path(args[0]))}
	if r.p.Cmdline == Drop {
		for _, a := range args[1:] {
			r.swap(a, "")
		}
		return out
	}
	n := commandAt(args)
	for i := 1; i < n; i++ {
		a := args[i]
		if a == "--" || !strings.HasPrefix(a, "-") {
			out = append(out, r.swap(a, r.dict.text(a))) // record
			continue
		}
		name, value, takes := option(a)
		switch {
		case value != "":
			out = append(out, r.swap(a, r.dict.text(a[:len(a)-len(value)])+r.value(name, value)))
		default:
			out = append(out, r.swap(a, r.dict.text(a)))
		}
		if takes && value == "" && i+1 < n {
			i++
			out = append(out, r.swap(args[i], r.value(name, args[i])))
		}
	}
	for i := n; i < len(args); i++ {
		if i == n && !strings.HasPrefix(args[i], "-") {
			out = append(out, r.swap(args[i], r.path(args[i])))
			continue
		}
		out = append(out, r.swap(args[i], r.names.get(kindArg, args[i])))
	}
	return out
}

// commandAt returns where in a command line of perf the command stands that it
// records; what is not understood belongs to it.
func commandAt(args []string) int {
	i := 1
	if i < len(args) && !strings.HasPrefix(args[i], "-") && len(args[i]) < 16 {
		i++ // record
	}
	for i < len(args) {
		a := args[i]
		switch {
		case a == "--":
			return i + 1
		case !strings.HasPrefix(a, "-") || a == "-":
			return i
		}
		name, value, takes := option(a)
		if name == "" {
			return i
		}
		if takes && value == "" {
			i++
		}
		i++
	}
	return min(i, len(args))
}

// option takes an option of perf apart: its name, the value that stands in the
// same argument, and whether it has one. The name is "" if it is none.
func option(a string) (name, value string, takes bool) {
	if flag, value, given := strings.Cut(a, "="); longFlag.MatchString(flag) {
		return flag, value, given || longValues[flag]
	}
	if strings.HasPrefix(a, "--") {
		return "", "", false
	}
	for j := 1; j < len(a); j++ {
		switch {
		case strings.IndexByte(shortValues, a[j]) >= 0:
			return "-" + a[j:j+1], a[j+1:], true
		case (a[j] < 'a' || a[j] > 'z') && (a[j] < 'A' || a[j] > 'Z'):
			if j > 1 && a[j-1] == 'z' { // -z3
				return "-z", a[j:], true
			}
			return "", "", false
		}
	}
	return a, "", false
}

// swap notes what stands in the place of an argument, and returns it.
func (r *Redactor) swap(old, new string) string {
	c := r.fields[fieldCmdline]
	if c == nil {
		c = &fieldTexts{texts: map[string]*fieldText{}}
		r.fields[fieldCmdline] = c
	}
	t := c.texts[old]
	if t == nil {
		t = &fieldText{old: old, new: new}
		c.texts[old] = t
		c.list = append(c.list, t)
	}
	t.count++
	return new
}

// value returns the value of an option of perf.
func (r *Redactor) value(flag, v string) string {
	switch flag {
	case "-e", "--event":
		if eventValue.MatchString(v) {
			return r.dict.text(v)
		}
	case "-o", "--output", "--buildid-dir", "--vmlinux", "-i", "--input":
		if v == "-" || !strings.Contains(v, "/") {
			return r.dict.text(path.Base(v))
		}
		return r.path(v)
	case "-G", "--cgroup":
		return r.dict.text(v)
	case "-u", "--uid":
		if r.p.Users == Keep {
			return v
		}
		return r.names.get(kindUser, v)
	}
	if plainValue.MatchString(v) {
		return r.dict.text(v)
	}
	return r.names.get(kindArg, v)
}
