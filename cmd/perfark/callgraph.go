package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/perfark/perfark/report"
)

// A callGraph is what --call-graph says, in the language of perf:
// KIND,MIN[,LIMIT],ORDER,KEY,VALUE in any order, each of which may be cut
// short.
type callGraph struct {
	report.Graph
	ordered bool // ORDER was given
	given   bool // the flag was
	off     bool // none, or --no-call-graph
	last    string
}

// callGraphDefault is what -g without a value stands for.
const callGraphDefault = "graph,0.5,caller,function,percent"

func newCallGraph() callGraph {
	return callGraph{Graph: report.Graph{Mode: report.GraphTree, MinPercent: 0.5}}
}

var (
	graphModes = []struct {
		name string
		mode report.GraphMode
	}{{"graph", report.GraphTree}, {"flat", report.GraphFlat}, {"fractal", report.GraphFractal}, {"folded", report.GraphFolded}}
	graphOrders = []struct {
		name  string
		order report.Order
	}{{"caller", report.ByCaller}, {"callee", report.ByCallee}}
	graphKeys = []struct {
		name string
		key  report.ChainKey
	}{{"function", report.ByFunction}, {"address", report.ByAddress}, {"srcline", report.BySrcline}}
	graphValues = []struct {
		name  string
		value report.ChainValue
	}{{"percent", report.ValuePercent}, {"period", report.ValuePeriod}, {"count", report.ValueCount}}
)

// String, Set and Type make it the value of a flag.
func (g *callGraph) String() string { return g.last }
func (g *callGraph) Type() string   { return "string" }

func (g *callGraph) Set(s string) error {
	next := *g
	if err := next.parse(s); err != nil {
		return err
	}
	*g = next
	return nil
}

// parse takes the words in perf's order (parse_callchain_report_opt in
// tools/perf/util/callchain.c): what is none of the others is the least share,
// and after that the number of branches.
func (g *callGraph) parse(s string) error {
	g.given, g.off, g.last = true, false, s
	percent := false
	for word := range strings.SplitSeq(s, ",") {
		if word == "" {
			continue
		}
		if strings.HasPrefix("none", word) {
			g.off = true
			return nil
		}
		if g.word(word) {
			continue
		}
		if word == "branch" {
			return fmt.Errorf("branch: branch stacks are no part of call graphs here; see --branch-stack")
		}
		v, err := strconv.ParseFloat(word, 64)
		switch {
		case err != nil || math.IsNaN(v) || v < 0:
			return fmt.Errorf("%q is neither of graph, fractal, flat, folded, none, caller, callee, function, address, srcline, percent, period, count nor a number", word)
		case !percent:
			g.MinPercent, percent = v, true
		case v != math.Trunc(v) || v > math.MaxInt32:
			return fmt.Errorf("%q is no number of branches", word)
		default:
			g.PrintLimit = int(v)
		}
	}
	return nil
}

func (g *callGraph) word(word string) bool {
	for _, m := range graphModes {
		if strings.HasPrefix(m.name, word) {
			g.Mode = m.mode
			return true
		}
	}
	for _, o := range graphOrders {
		if strings.HasPrefix(o.name, word) {
			g.Order, g.ordered = o.order, true
			return true
		}
	}
	for _, k := range graphKeys {
		if strings.HasPrefix(k.name, word) {
			g.Key = k.key
			return true
		}
	}
	for _, v := range graphValues {
		if strings.HasPrefix(v.name, word) {
			g.Value = v.value
			return true
		}
	}
	return false
}

// callGraphOff is --no-call-graph.
type callGraphOff struct{ g *callGraph }

func (callGraphOff) String() string   { return "false" }
func (callGraphOff) Type() string     { return "bool" }
func (callGraphOff) IsBoolFlag() bool { return true }

func (o callGraphOff) Set(s string) error {
	on, err := strconv.ParseBool(s)
	if err == nil {
		o.g.off, o.g.given = on, false
	}
	return err
}

// A percentLimit is --percent-limit, which is the limit of call graphs as
// well.
type percentLimit struct {
	g *callGraph
	v float64
}

func (p *percentLimit) String() string { return strconv.FormatFloat(p.v, 'g', -1, 64) }
func (p *percentLimit) Type() string   { return "float" }

func (p *percentLimit) Set(s string) error {
	v, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return fmt.Errorf("%q is not a percentage", s)
	}
	p.v, p.g.MinPercent = v, v
	return nil
}
