// Package report turns a profile into tables, as data and as text. It knows
// nothing of files: what goes in is a *profile.Profile, what comes out are
// rows in perf's order with perf's numbers, and the page that perf report
// --stdio prints.
package report

import (
	"fmt"
	"strings"
)

// A Key is a column of a table: something to tell rows apart by, or something
// that is counted.
type Key uint8

// The keys. PID and TID both go by thread, as perf's pid does; only the
// heading differs.
const (
	Overhead Key = iota // share of the event's period
	Samples             // number of samples
	Period              // sum of their periods
	PID
	Comm
	DSO
	Symbol
	CPU
	TID
)

// keyNames is in the order in which perf tries the names against an
// abbreviation (tools/perf/util/sort.c), our own ones last.
var keyNames = []struct {
	name string
	key  Key
}{
	{"pid", PID},
	{"comm", Comm},
	{"dso", DSO},
	{"symbol", Symbol},
	{"cpu", CPU},
	{"overhead", Overhead},
	{"sample", Samples},
	{"period", Period},
	{"tid", TID},
}

// String returns the name of k as --sort takes it.
func (k Key) String() string {
	for _, n := range keyNames {
		if n.key == k {
			return n.name
		}
	}
	return fmt.Sprintf("key %d", uint8(k))
}

// counts reports whether k is something that is counted, not told apart by.
func (k Key) counts() bool { return k <= Period }

// heading is the title of the column.
func (k Key) heading() string {
	switch k {
	case Overhead:
		return "Overhead"
	case Samples:
		return "Samples"
	case Period:
		return "Period"
	case PID:
		return "    Pid:Command"
	case TID:
		return "    Tid:Command"
	case Comm:
		return "Command"
	case DSO:
		return "Shared Object"
	case Symbol:
		return "Symbol"
	case CPU:
		return "CPU"
	}
	return k.String()
}

// ParseKeys parses a list of keys separated by commas. As with perf, case
// does not matter, a name may be cut short, and a key named twice counts once.
// The error names the word and what is accepted.
func ParseKeys(list string) ([]Key, error) {
	var keys []Key
next:
	for word := range strings.SplitSeq(list, ",") {
		word = strings.ToLower(strings.TrimSpace(word))
		if word == "" {
			continue
		}
		for _, n := range keyNames {
			if strings.HasPrefix(n.name, word) {
				keys = appendKey(keys, n.key)
				continue next
			}
		}
		return nil, fmt.Errorf("unknown key %q: want some of %s", word, keyList())
	}
	return keys, nil
}

func keyList() string {
	names := make([]string, len(keyNames))
	for i, n := range keyNames {
		names[i] = n.name
	}
	return strings.Join(names, ", ")
}

// appendKey appends k unless it is there.
func appendKey(keys []Key, k Key) []Key {
	for _, have := range keys {
		if have == k {
			return keys
		}
	}
	return append(keys, k)
}
