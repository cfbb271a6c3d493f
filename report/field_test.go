package report

import (
	"strings"
	"testing"

	"github.com/perfark/perfark/profile"
)

// Fields of tracepoints stand in the table of their event, ordered by number or
// by text, under names that are escaped (UI-4).
func TestTraceFields(t *testing.T) {
	p := &profile.Profile{
		Events:    []profile.Event{{Name: "a:switch"}, {Name: "a:wake"}},
		Locations: []profile.Location{{Object: profile.None, Func: profile.None}},
		Threads:   []profile.Thread{{PID: 1, TID: 1, Comm: "x"}},
	}
	for i, text := range []string{"all\x009\x00b\x00", "\x0010\x00a\x00", "\x009\x00c\x00", "\x00\x00\x00pid=\x1b"} {
		p.Extras = append(p.Extras, profile.Extra{Text: text, Data: profile.None, From: profile.None, To: profile.None})
		p.Samples = append(p.Samples, profile.Sample{Event: int32(i / 3), Extra: int32(i), Stack: profile.None, Count: 1, Period: 1})
	}
	for _, tt := range []struct {
		sort []Key
		tree bool
		want string
	}{
		{[]Key{FieldKey(0)}, false, `
# Overhead     pid
# ........  ......
    66.67%       9
    33.33%      10
# Overhead
# ........
   100.00%
`},
		{[]Key{FieldKey(1)}, false, `
# Overhead  name
# ........  ....
    33.33%     c
    33.33%     b
    33.33%     a
# Overhead
# ........
   100.00%
`},
		{[]Key{FieldKey(2), Trace}, false, `
# Overhead  Trace output
# ........  ............
    66.67%  N/A
    33.33%  all
# Overhead     \x1bf  Trace output
# ........  ........  ............
   100.00%  pid=\x1b  N/A
`},
		{[]Key{FieldKey(0), FieldKey(1)}, true, `
#    Overhead  pid / name
# ...........  ..........
    66.67%     9
       33.33%     c
       33.33%     b
    33.33%     10
       33.33%     a
# Overhead
# ........
   100.00%
`},
	} {
		o := Options{Sort: tt.sort, Hierarchy: tt.tree, TraceFields: []TraceField{{"pid", 0, 6}, {"name", 0, 4}, {"\x1bf", 1, 2}}}
		var page, js strings.Builder
		if err := WritePage(&page, Flat(p, o), PageOptions{}); err != nil {
			t.Fatal(err)
		}
		got := "\n"
		for line := range strings.Lines(page.String()) {
			if line = strings.TrimRight(line, " \n"); strings.Contains(line, "%") || strings.Contains(line, "Overhead") || strings.Contains(line, "...") {
				got += line + "\n"
			}
		}
		if got != tt.want {
			t.Errorf("%v:%s\nwant%s", tt.sort, got, tt.want)
		}
		if err := WriteJSON(&js, Flat(p, o), JSONOptions{}); err != nil {
			t.Fatal(err)
		}
		if tt.sort[0] == FieldKey(2) && (!strings.Contains(js.String(), `"a:wake.\u001bf":"pid=\\x1b"`) || !strings.Contains(js.String(), `"columns":["overhead","a:wake.\u001bf","trace"]`)) {
			t.Errorf("%s", js.String())
		}
	}
}
