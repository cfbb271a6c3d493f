#!/bin/bash
# foreign.sh DIR [MACHINE...]: programs of other machines into DIR/MACHINE, for
# bench/agree: all of arm64, loong64, riscv64, ppc64le, s390x, arm if none is
# named.
#
#   MACHINE/bin/symbolize   a Go program, cross-compiled
#   MACHINE/usr, lib        Debian's packages libc6, libssl3, linux-perf and ripgrep, where Debian has the machine
#
# What exists is kept. What cannot be had is left out with a notice: without
# apt-get or a network there are no packages. Nothing is installed.
set -eu
dir=${1:?usage: foreign.sh DIR [MACHINE...]}
shift
[ $# -gt 0 ] || set -- arm64 loong64 riscv64 ppc64le s390x arm
mkdir -p "$dir/bin" && dir=$(cd "$dir" && pwd)
cd "$(dirname "$0")/.."
GO=${GO:-go}

# What the rows of this machine need.
[ -x "$dir/bin/symbolize" ] || GOARCH=amd64 $GO build -o "$dir/bin/symbolize" ./bench/symbolize
if [ ! -x "$dir/bin/rustheavy" ] && command -v rustc >/dev/null 2>&1; then
	rustc --edition 2021 -C opt-level=3 -C debuginfo=2 -o "$dir/bin/rustheavy" bench/programs/rustheavy.rs
fi

# packages DEBIAN DIR PACKAGE...: unpacks packages of another architecture, by
# lists of their own.
packages() {
	local to=$2 apt=$2/apt p
	[ -e "$to/usr" ] && return
	command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 || return 1
	local get=(apt-get -qq -o APT::Architecture="$1" -o APT::Architectures="$1" -o Dir::State::lists="$apt/lists" -o Dir::Cache="$apt/cache"
		-o Dir::State::status=/dev/null -o APT::Sandbox::User=root -o Acquire::Languages=none)
	shift 2
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
	"${get[@]}" update >/dev/null 2>&1 || true # not every source has this machine
	(cd "$apt" && "${get[@]}" download "$@") >/dev/null 2>&1 || { rm -rf "$apt"; return 1; }
	for p in "$apt"/*.deb; do dpkg-deb -x "$p" "$to" || return 1; done
	rm -rf "$apt"
}

for machine; do
	mkdir -p "$dir/$machine/bin"
	[ -x "$dir/$machine/bin/symbolize" ] ||
		CGO_ENABLED=0 GOARCH=$machine $GO build -o "$dir/$machine/bin/symbolize" ./bench/symbolize 2>/dev/null ||
		CGO_ENABLED=0 GOARCH=$machine $GO build -o "$dir/$machine/bin/symbolize" cmd/gofmt || # that is not for machines of 32 bits
		echo "foreign.sh: no Go program of $machine" >&2
	case $machine in
	arm) debian=armhf ;;
	ppc64le) debian=ppc64el ;;
	arm64 | s390x) debian=$machine ;;
	*) continue ;;
	esac
	packages $debian "$dir/$machine" libc6 libssl3 linux-perf ripgrep ||
		echo "foreign.sh: no packages of $machine: they come by apt-get, of Debian" >&2
done
