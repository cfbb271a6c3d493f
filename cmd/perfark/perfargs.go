package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// perfArgs rewrites a command line into one that means here what it means to
// perf: long flags may be cut short, every flag has a --no- form, and a flag
// whose value may be left out takes the next word if that can be its value.
func perfArgs(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Annotations[likePerf] == "" {
		return args
	}
	cmd.InitDefaultHelpFlag()
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.AddFlagSet(cmd.Flags())
	fs.AddFlagSet(cmd.InheritedFlags())
	var out []string
	named := false // the word that names the command has been seen
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			return append(out, args[i:]...)
		}
		f, next := flagAt(fs, &arg)
		if f == nil && cmd.Annotations[untilWord] != "" && !strings.HasPrefix(arg, "-") {
			if named {
				return append(append(out, "--"), args[i:]...)
			}
			named = true
		}
		switch {
		case f == nil:
			out = append(out, arg)
		case !next:
			out = append(out, arg)
		case f.Annotations[optionalValue] != nil:
			if i+1 < len(args) && canBe(f, args[i+1]) {
				i++
				arg += "=" + args[i]
			}
			out = append(out, arg)
		default:
			out = append(out, arg)
			if i+1 < len(args) {
				i++
				out = append(out, args[i])
			}
		}
	}
	return out
}

// Annotations: of commands whose flags are perf's, of those that take all from
// the first word on as the command line of another program, of flags whose
// value may be left out, and of those whose value then stands in the same word:
// as a number, or, if the annotation has a value, as any text.
const (
	likePerf      = "like perf"
	untilWord     = "until a word"
	optionalValue = "value may be left out"
	stickyValue   = "value in the same word"
)

// canBe reports whether a word can be the value of a flag.
func canBe(f *pflag.Flag, word string) bool {
	if strings.HasPrefix(word, "-") {
		return false
	}
	g := newCallGraph()
	return g.parse(word) == nil
}

// flagAt returns the flag of a word, whose name it writes out, and whether the
// next word may be its value. nil: none is known.
func flagAt(fs *pflag.FlagSet, arg *string) (f *pflag.Flag, next bool) {
	long, isLong := strings.CutPrefix(*arg, "--")
	if isLong {
		name, value, hasValue := strings.Cut(long, "=")
		full := fullName(fs, name)
		if full == "" {
			return nil, false
		}
		*arg = "--" + full
		f = fs.Lookup(full)
		if hasValue {
			*arg += "=" + value
			return f, false
		}
		return f, takesNext(f)
	}
	if len(*arg) < 2 || (*arg)[0] != '-' {
		return nil, false
	}
	// Some short flags in a word: only the last may take the next one.
	for j := 1; j < len(*arg); j++ {
		f = fs.ShorthandLookup((*arg)[j : j+1])
		if f == nil {
			return nil, false
		}
		if rest := (*arg)[j+1:]; rest != "" && f.Annotations[stickyValue] != nil && (rest[0] >= '0' && rest[0] <= '9' || len(f.Annotations[stickyValue]) > 0) {
			*arg = (*arg)[:j+1] + "=" + rest
			return f, false
		}
		if takesNext(f) {
			rest := (*arg)[j+1:]
			if rest != "" && f.NoOptDefVal != "" && rest[0] != '=' {
				*arg = (*arg)[:j+1] + "=" + rest // pflag would take them for flags
			}
			return f, rest == ""
		}
	}
	return f, false
}

// takesNext reports whether a flag without = takes the next word.
func takesNext(f *pflag.Flag) bool {
	return f.NoOptDefVal == "" || f.Annotations[optionalValue] != nil
}

// fullName returns the name of the flag that is meant, "" if there is none or
// more than one.
func fullName(fs *pflag.FlagSet, name string) string {
	if fs.Lookup(name) != nil {
		return name
	}
	found, n := "", 0
	fs.VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, name) && name != "" {
			found = f.Name
			n++
		}
	})
	if n == 1 {
		return found
	}
	return ""
}
