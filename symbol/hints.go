package symbol

// lineHint returns what would give locations their lines; "" if nothing would.
func (r Reason) lineHint(object, missing string) string {
	switch r {
	case NoShared:
		return "install the package that has " + quote(missing) + ", then perfark archive"
	case NoSplit:
		return "copy " + quote(missing) + ", or the .dwp made with dwp -e " + quote(object) + ", to the same place here"
	}
	return r.hint(object)
}

// textHint returns what would give an object its machine code; "" if nothing
// would.
func (r Reason) textHint(object string) string {
	switch r {
	case NoVmlinux:
		return "perfark buildid-cache -a vmlinux, which is in the debug package of this kernel; or, as root and in the boot of the recording, perfark buildid-cache -k /proc/kcore"
	case NoBPFCode:
		return "record as root, and without --no-bpf-event"
	case LeftOut:
		return "perfark archive without --slim keeps all code; a whole copy of " + object + " in the buildid cache or --symfs is taken first"
	case NoJITCode, NoJITDump:
		return "have the runtime write a jitdump file, and record with perf record -k mono"
	}
	return r.hint(object)
}
