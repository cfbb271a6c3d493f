package report

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Reports as JSON: docs/report.md. The golden files are the promise.
func TestJSON(t *testing.T) {
	tests := []struct {
		name string
		o    Options
	}{
		{"json-flat", Options{Sort: []Key{PID, Comm, DSO, Symbol, CPU}}},
		{"json-children", Options{Children: true, Graph: Graph{Mode: GraphTree, Order: ByCaller, MinPercent: 20}}},
		{"json-hierarchy", Options{Hierarchy: true, ShowCPU: true, Graph: Graph{Mode: GraphTree}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var buf bytes.Buffer
			if err := WriteJSON(&buf, Flat(cumulate(), tt.o), JSONOptions{File: "perf.data", Lost: 7, PercentLimit: 15}); err != nil {
				t.Fatal(err)
			}
			golden(t, tt.name, buf.Bytes())
			var v any
			if err := json.Unmarshal(buf.Bytes(), &v); err != nil {
				t.Errorf("%v", err)
			}
		})
	}
}

// Every key is a field, and a key of --sort.
func TestJSONKeys(t *testing.T) {
	for key := range numKeys {
		if got, err := ParseKeys(key.String(), nil); err != nil || !slices.Equal(got, []Key{key}) {
			t.Errorf("ParseKeys(%q) = %v, %v", key, got, err)
		}
		var buf bytes.Buffer
		if err := WriteJSON(&buf, Flat(cumulate(), Options{Sort: []Key{key}}), JSONOptions{}); err != nil {
			t.Fatal(err)
		}
		name := key.String()
		switch key {
		case SymbolSize: // of what has a size
		case OverheadChildren:
			continue
		}
		if !strings.Contains(buf.String(), `"`+name+`":`) && key != Samples {
			t.Errorf("no field %q in %.300s", name, buf.String())
		}
	}
}
