package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/perfark/perfark/report"
)

// completeList completes the last word of a list with commas.
func completeList(words func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		done := typed[:strings.LastIndexAny(typed, ",:+-")+1]
		var out []string
		for _, w := range words() {
			out = append(out, done+w)
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// sortKeys are the keys of report.
func sortKeys() []string {
	var out []string
	for _, k := range report.Keys() {
		out = append(out, k.String())
	}
	return out
}

// callGraphWords are those of --call-graph.
func callGraphWords() []string {
	out := []string{"none"}
	for _, m := range graphModes {
		out = append(out, m.name)
	}
	for _, o := range graphOrders {
		out = append(out, o.name)
	}
	for _, k := range graphKeys {
		out = append(out, k.name)
	}
	for _, v := range graphValues {
		out = append(out, v.name)
	}
	return out
}

// completeFlags has the shell complete the values of flags.
func completeFlags(cmd *cobra.Command, words map[string]func() []string) {
	for flag, f := range words {
		// The error is that there is no such flag, or that it is done already.
		if err := cmd.RegisterFlagCompletionFunc(flag, completeList(f)); err != nil {
			panic(err)
		}
	}
}

// oneOf completes to one of the words.
func oneOf(words ...string) func() []string { return func() []string { return words } }
