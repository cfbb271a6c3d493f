package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func newManCmd(*app) *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "write the manual pages into a directory",
		Example: "  perfark man /usr/local/share/man/man1",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("want one directory, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			epoch := time.Unix(0, 0).UTC() // the same bytes every time
			root := cmd.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{
				Title:   "PERFARK",
				Section: "1",
				Source:  "perfark",
				Manual:  "perfark",
				Date:    &epoch,
			}, args[0])
		},
	}
}
