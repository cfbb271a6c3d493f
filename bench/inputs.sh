#!/bin/bash
# inputs.sh DIR [small|all]: records the inputs of the benchmarks into DIR.
#
#   small.data    5 s, system-wide, 999 Hz, call graphs               2 MB
#   large.data    180 s, system-wide, 19,999 Hz, call graphs          1.2 GB
#   half.data     the first half of large.data
#   bigdso.data   the largest programs of this machine, 999 Hz        over 1 GB of binaries, where there are as many
#   zstd.data     45 s, system-wide, 19,999 Hz, compressed            30 MB
#   cpp.data      8 s of templates and inlines in C++, -O2 -g         1.5 MB
#   rust.data     8 s of iterators and closures in Rust, -O -g        1.1 MB
#   bigcpp.data   8 s of a C++ program of 38 MB                       1.4 MB
#   dwarf.data    8 s, --call-graph dwarf, 5,999 Hz                   390 MB
#   *.addr        addresses of functions of a large debug file that is here, 20,000 of each
#   cache/NAME    perf's cache (--buildid-dir) of each
#
# What exists is kept. Wants perf (root, or perf_event_paranoid below 0), gcc,
# python3, git and, for a fair mix, whatever else of the tools below there is.
set -eu
dir=${1:?usage: inputs.sh DIR [small|all]} what=${2:-all}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$dir/tmp" "$dir/home" "$dir/cache" && dir=$(cd "$dir" && pwd)
export HOME="$dir/home" TMPDIR="$dir/tmp" LC_ALL=C DEBUGINFOD_URLS= GOFLAGS=
unset PERF_BUILDID_DIR

have() { command -v "$1" >/dev/null 2>&1; }
have perf || { echo "inputs.sh: perf is not installed: apt-get install linux-perf" >&2; exit 1; }

# record NAME FREQ ARGS...: a recording and its cache, whole or not at all.
record() {
	local name=$1 freq=$2
	shift 2
	[ -s "$dir/$name.data" ] && return
	echo "inputs.sh: recording $name" >&2
	perf --buildid-dir "$dir/cache/$name" record -q -e cpu-clock -F "$freq" -m 32M -g -o "$dir/tmp/$name.data" "$@" >/dev/null 2>&1 || true
	mv "$dir/tmp/$name.data" "$dir/$name.data"
}

# The large programs: a copy of each that lacks a Build ID gets one, since perf
# archive skips what has none.
bigdso() {
	local f n=0
	mkdir -p "$dir/big"
	for f in $(find /usr /opt "${RUSTUP_HOME:-/root/.rustup}" -xdev -type f -executable -size +30M 2>/dev/null | sort); do
		[ "$(head -c4 "$f" | tail -c3)" = ELF ] || continue
		case $f in *.so*) continue ;; esac
		n=$((n + 1))
		if readelf -n "$f" 2>/dev/null | grep -q 'Build ID'; then
			printf 'timeout 3 "%s" --help </dev/null\n' "$f"
		elif python3 "$here/addid.py" "$f" "$dir/big/$n-${f##*/}" 2>/dev/null; then
			printf 'timeout 3 "%s" --help </dev/null\n' "$dir/big/$n-${f##*/}"
		fi
	done
	cat <<-'X'
		for i in 1 2 3; do
		echo 'int main(void){return 0;}' >e.c; gcc -O2 -c e.c; clang -O2 -c e.c; g++ -O2 -c -x c++ -include regex e.c
		echo 'fn main(){println!("{}",(0..9).map(|x|x*x).sum::<i32>())}' >e.rs; rustc -O e.rs
		node -e 'let s=0;for(let i=0;i<3e7;i++)s+=i%7;console.log(s)'
		python3 -c 'print(sum(i*i for i in range(3000000)))'
		java -version; done
	X
}

# program NAME FREQ COMMAND...: a recording of 8 CPU-seconds of one program.
program() {
	local name=$1 freq=$2 graph=$3
	shift 3
	[ -s "$dir/$name.data" ] && return
	[ -x "$1" ] || return 0
	echo "inputs.sh: recording $name" >&2
	perf --buildid-dir "$dir/cache/$name" record -q -e cpu-clock -F "$freq" -m 32M --call-graph "$graph" -o "$dir/tmp/$name.data" -- \
		bash -c 'ulimit -t 8; exec "$@"' sh "$@" >/dev/null 2>&1 || true
	mv "$dir/tmp/$name.data" "$dir/$name.data"
}

# programs builds what is recorded alone.
programs() {
	local p=$here/programs
	mkdir -p "$dir/bin"
	if have g++; then
		[ -x "$dir/bin/cxxheavy" ] || g++ -std=c++17 -O2 -g -o "$dir/bin/cxxheavy" "$p/cxxheavy.cpp"
		[ -x "$dir/bin/cxxheavy-fp" ] || g++ -std=c++17 -O2 -g -fno-omit-frame-pointer -o "$dir/bin/cxxheavy-fp" "$p/cxxheavy.cpp"
		if [ ! -x "$dir/bin/bigcpp" ]; then
			mkdir -p "$dir/bigcpp"
			python3 "$p/bigcpp.py" 8 "$dir/bigcpp"
			(cd "$dir/bigcpp" && ls ./*.cpp | xargs -P2 -I{} g++ -std=c++17 -O2 -g -fno-omit-frame-pointer -c {} && g++ -o "$dir/bin/bigcpp" ./*.o)
		fi
	fi
	if have rustc && [ ! -x "$dir/bin/rustheavy" ]; then
		rustc --edition 2021 -C opt-level=3 -C debuginfo=2 -o "$dir/bin/rustheavy" "$p/rustheavy.rs"
	fi
}

record small 999 -a -- "$here/workload.sh" "$dir/tmp" 5
[ "$what" = all ] || exit 0
if [ ! -s "$dir/bigdso.data" ]; then
	bigdso >"$dir/tmp/bigdso.sh"
	(cd "$dir/tmp" && record bigdso 999 -- bash bigdso.sh)
fi
record large 19999 -a -- "$here/workload.sh" "$dir/tmp" 180
[ -s "$dir/half.data" ] || head -c $(($(stat -c %s "$dir/large.data") / 2)) "$dir/large.data" >"$dir/half.data"
record zstd 19999 -a -z -- "$here/workload.sh" "$dir/tmp" 45
programs
program cpp 1999 fp "$dir/bin/cxxheavy-fp" 1000
program rust 1999 fp "$dir/bin/rustheavy" 1000
program bigcpp 1999 fp "$dir/bin/bigcpp" 1000
program dwarf 5999 dwarf,8192 "$dir/bin/cxxheavy" 1000

# addresses NAME FILE: of functions of a debug file, in a random but fixed order.
addresses() {
	[ -s "$dir/$1.addr" ] || ! [ -s "$2" ] && return
	ln -sfn "$2" "$dir/$1.debug"
	nm "$2" 2>/dev/null | awk '$2 ~ /^[tT]$/ {print "0x" $1}' | shuf -n 20000 --random-source="$2" >"$dir/$1.addr"
}
addresses vmlinux "$(ls /usr/lib/debug/boot/vmlinux-* 2>/dev/null | tail -1)"
addresses ceph "$(find /usr/lib/debug/.build-id -name '*.debug' -size +100M 2>/dev/null | head -1)"
