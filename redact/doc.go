// Package redact writes a recording anew without what nobody outside is to
// see: arguments of command lines, names of hosts and users, home directories,
// values of environment variables, container names and ids.
//
// In goes an open perf.data of any kind, out comes one with the same samples:
// addresses, Build IDs, times and numbers of processes stay as they are, so that
// symbols stay right. A name that is replaced is replaced everywhere, and by
// the same pseudonym: in features, in records, in decompressed records, in raw
// data of tracepoints, in copies of user stacks. Of the files that a bundle
// holds, Source gives copies in which the names are overwritten.
//
// What is not understood does not go out: unknown features and records are
// left out unless the Policy keeps them. Search looks for the names in what was
// written.
//
// The rules are in docs/redact.md.
package redact
