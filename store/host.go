package store

import (
	"time"

	"github.com/perfark/perfark/buildid"
)

// HostOptions says what is known of a recording that was made on this host.
// The zero value finds files by Build ID only.
type HostOptions struct {
	// PIDs are the processes of the recording. Those that still live are asked
	// for the files they have mapped: also deleted ones, and those of other
	// mount namespaces.
	PIDs []int32

	// SameHost says that the recording was made on this host in this boot.
	// Without it nothing is used that no Build ID ties to the recording: perf
	// maps, and objects known by inode only.
	SameHost bool

	// Recorded is when the recording ended. Objects without an id that were
	// written to later, and processes that started later, are not those of the
	// recording. Zero means that it is not known, and no object without an id
	// is used.
	Recorded time.Time

	// Release is the kernel's release as recorded: its modules and images are
	// looked for under that. "" means no such place is looked at.
	Release string

	// Root, Proc and Sys are where the file systems are; "" means /, /proc and
	// /sys.
	Root, Proc, Sys string
}

// Host returns a Source of the files of this host. For an object it asks, in
// this order,
//
//   - the living processes that have it mapped: /proc/PID/map_files, exe, and
//     root/PATH, each opened by way of descriptors so that neither the process
//     nor the file can be exchanged for another meanwhile;
//   - the recorded path; without " (deleted)" if there is no file of that name;
//   - for modules the tree /lib/modules/RELEASE, for kernels the places where
//     images are kept.
//
// The vDSO is that of our own process, kallsyms that of the running kernel,
// both only if the Build ID is the recorded one. A name of something that is in
// memory only, such as a memfd, is never looked up on a disk.
//
// Without a Build ID an object is used, as unverified, only if it is the very
// inode that was mapped and was not written to after the recording.
func Host(o HostOptions) Source { return newHost(o) }

// slack is how far two clocks may be apart: times of files, and of processes,
// whose base is in whole seconds.
const slack = 2 * time.Second

// A KernelMap is where the code of the running kernel, or of a module, is.
type KernelMap struct {
	ID         buildid.ID // "" if it has none
	Start, End uint64     // addresses; zero if the kernel hides them
	Name       string     // [kernel.kallsyms], or the module's in brackets
}
