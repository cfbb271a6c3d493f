package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/store"
)

// A reportConfig is what perfconfig says of reports where no flag does.
type reportConfig struct {
	sort string
}

// readConfig takes report.* and call-graph.* from perf's configuration. Flags
// come first; the files that count less come first here, as the others
// overwrite them.
func (c *reportCmd) readConfig(cmd *cobra.Command) error {
	configs := c.env.configs()
	slices.Reverse(configs)
	graph := newCallGraph()
	limit := percentLimit{g: &graph}
	for _, name := range configs {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		settings, err := store.ParseConfig(b)
		if err != nil {
			c.verbosef("%s: %s", name, err)
		}
		for _, s := range settings {
			if err := c.setting(s, &graph, &limit); err != nil {
				return fmt.Errorf("%s: %s.%s: %w", name, s.Section, s.Key, err)
			}
		}
	}
	fs := cmd.Flags()
	if !fs.Changed("percent-limit") {
		c.limit.v = limit.v
	}
	if !fs.Changed("call-graph") && !fs.Changed("no-call-graph") {
		limited := c.graph.MinPercent
		graph.given, graph.ordered = false, graph.ordered || c.graph.ordered
		c.graph = graph
		if fs.Changed("percent-limit") {
			c.graph.MinPercent = limited
		}
	}
	return nil
}

func (c *reportCmd) setting(s store.Setting, graph *callGraph, limit *percentLimit) error {
	flag := func(v, given *bool) error {
		on, err := configBool(s.Value)
		if err == nil && !*given {
			*v = on
		}
		return err
	}
	switch s.Section + "." + s.Key {
	case "report.percent-limit":
		return limit.Set(s.Value)
	case "report.children":
		return flag(&c.children, c.given.children)
	case "report.group":
		return flag(&c.group, c.given.group)
	case "report.skip-empty":
		return flag(&c.skipEmpty, c.given.skipEmpty)
	case "report.sort_order":
		c.config.sort = s.Value
	case "hist.percentage":
		if c.percentage == "" {
			c.percentage = s.Value
		}
	case "call-graph.print-type", "call-graph.order", "call-graph.sort-key":
		if s.Value == "none" || !graph.word(s.Value) {
			return fmt.Errorf("%q is not known", s.Value)
		}
	case "call-graph.threshold":
		v, err := strconv.ParseFloat(s.Value, 64)
		if err != nil || v != v || v < 0 {
			return fmt.Errorf("%q is not a percentage", s.Value)
		}
		graph.MinPercent = v
	case "call-graph.print-limit":
		v, err := strconv.ParseUint(s.Value, 10, 31)
		if err != nil {
			return fmt.Errorf("%q is no number of branches", s.Value)
		}
		graph.PrintLimit = int(v)
	}
	return nil
}

// configBool parses a boolean as perf's configuration has it.
func configBool(s string) (bool, error) {
	switch s {
	case "true", "yes", "on", "":
		return true, nil
	case "false", "no", "off":
		return false, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return false, fmt.Errorf("%q is not a boolean", s)
	}
	return n != 0, nil
}
