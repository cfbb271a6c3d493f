package main

import (
	"github.com/spf13/pflag"

	"github.com/perfark/perfark/report"
	"github.com/perfark/perfark/session"
)

// historySort is the order of rows with --branch-history.
var historySort = []report.Key{report.Srcline, report.Symbol, report.DSO}

// addHistoryFlags binds what report has of branches in call chains.
func (c *reportCmd) addHistoryFlags(fs *pflag.FlagSet) {
	addSwitch(fs, &c.branchHistory, "branch-history", "", false, "put the branches of branch stacks into call graphs (of perf record -b)")
}

// history is how branches become frames of call chains, in the order of these.
func (c *reportCmd) history(order report.Order) session.History {
	switch {
	case !c.branchHistory:
		return session.NoHistory
	case order == report.ByCaller:
		return session.HistoryByCaller
	}
	return session.HistoryByCallee
}
