// Package iced is iced-x86 (https://github.com/icedland/iced, MIT), the
// disassembler of x86, translated from WebAssembly to Go. go generate fetches
// and translates it; the build tag iced says that it is there.
package iced

//go:generate go run fetch.go
