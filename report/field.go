package report

import (
	"slices"
	"strconv"
	"strings"

	"github.com/perfark/perfark/profile"
)

// A TraceField is a field of a tracepoint, as a key. Only the table of its
// event has a column of it.
type TraceField struct {
	Name  string
	Event int32 // index into Profile.Events
	Width int   // of the column, at least
}

// FieldKey returns the key of Options.TraceFields[i].
func FieldKey(i int) Key { return numKeys + Key(i) }

// field returns the index in Options.TraceFields of a key; -1 if it is none of
// these.
func (k Key) field() int { return max(int(k)-int(numKeys), -1) }

// traceText returns what the data of a tracepoint says.
func traceText(e *profile.Extra) string {
	text, _, _ := strings.Cut(e.Text, "\x00")
	return text
}

// fieldText returns the value of a field of a tracepoint.
func fieldText(e *profile.Extra, field int) string {
	rest := e.Text
	for range field + 1 {
		_, rest, _ = strings.Cut(rest, "\x00")
	}
	value, _, _ := strings.Cut(rest, "\x00")
	return value
}

// rankFields numbers values in order, the largest first: of numbers if all are,
// else of bytes. (perf compares the bytes of the data.)
func rankFields(values []string) []int32 {
	numbers := make([]uint64, len(values))
	for i, v := range values {
		n, err := strconv.ParseInt(v, 0, 64)
		if err != nil && v != "" {
			codes := ranks(values)
			last := slices.Max(codes)
			for i := range codes {
				codes[i] = last - codes[i]
			}
			return codes
		}
		numbers[i] = signed(uint64(n))
	}
	return rankValues(numbers, true)
}

// columnsOf returns those of columns that a table of an event has.
func (o *Options) columnsOf(columns []Key, event int32) []Key {
	return slices.DeleteFunc(slices.Clone(columns), func(k Key) bool {
		return k.field() >= 0 && o.TraceFields[k.field()].Event != event
	})
}

// name returns the name of a key as --sort takes it.
func (o *Options) name(k Key, events []profile.Event) string {
	if i := k.field(); i >= 0 {
		f := &o.TraceFields[i]
		return events[f.Event].Name + "." + f.Name
	}
	return k.String()
}
