package main

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagWidth is how wide the flags stand in help before what they do; longer
// ones have a line of their own.
const flagWidth = 30

// flagUsages returns the help of flags, each with the name of its value and
// its default, if that is not that of its type.
func flagUsages(fs *pflag.FlagSet) string {
	var b strings.Builder
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name, usage := pflag.UnquoteUsage(f)
		line := "      --" + f.Name
		if f.Shorthand != "" {
			line = "  -" + f.Shorthand + ", --" + f.Name
		}
		switch {
		case f.Value.Type() == "count":
		case name != "" && f.NoOptDefVal != "" && f.Value.Type() != "bool":
			line += "[=" + name + "]"
		case name != "":
			line += " " + name
		}
		b.WriteString(line)
		if n := utf8.RuneCountInString(line); n <= flagWidth {
			b.WriteString(strings.Repeat(" ", flagWidth-n))
		} else {
			b.WriteString("\n" + strings.Repeat(" ", flagWidth))
		}
		b.WriteString("  " + usage)
		if d := f.DefValue; !strings.Contains(usage, "(default") && d != "" && d != "false" && d != "true" && d != "0" && d != "[]" {
			b.WriteString(" (default: " + d + ")")
		}
		b.WriteByte('\n')
	})
	return strings.TrimRight(b.String(), "\n")
}

// setUsage has the help of root and its commands list flags by flagUsages:
// cobra's own way makes one column as wide as the longest of them.
func setUsage(root *cobra.Command) {
	plain := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error {
		w := c.OutOrStderr()
		var buf bytes.Buffer
		c.SetOut(&buf)
		err := plain(c)
		c.SetOut(w)
		if err != nil {
			return err
		}
		text := buf.String()
		for _, fs := range []*pflag.FlagSet{c.LocalFlags(), c.InheritedFlags()} {
			if was := strings.TrimRight(fs.FlagUsages(), " \n"); was != "" {
				text = strings.Replace(text, was, flagUsages(fs), 1)
			}
		}
		_, err = io.WriteString(w, text)
		return err
	})
}
