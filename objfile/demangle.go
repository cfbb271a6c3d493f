package objfile

import "github.com/ianlancetaylor/demangle"

// Demangle returns a C++ or Rust name as perf prints it.
func Demangle(name string) string {
	if len(name) > 2 && (name[:2] == "_Z" || name[:2] == "_R") {
		return demangle.Filter(name, demangle.NoParams)
	}
	return name
}
