#!/bin/bash
# demo.sh: make demo. The main job, for real: record a profile on a "server",
# pack it, carry one file to a "laptop" that has nothing else, and read it
# there with every name.
set -euo pipefail
cd "$(dirname "$0")/.."
perfark=$PWD/bin/perfark
demo=$PWD/demo
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp/server" "$tmp/laptop"
export DEBUGINFOD_URLS='' PERF_CONFIG=/dev/null
unset PERF_BUILDID_DIR

say() { printf '\n== %s\n' "$*"; }
show() { printf '$ %s\n' "$*"; "$@"; }

if ! command -v perf >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	say "Installing perf (linux-perf)"
	{ DEBIAN_FRONTEND=noninteractive apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends linux-perf; } >/dev/null 2>&1 ||
		echo "that did not work; going on without"
fi

CGO_ENABLED=0 "${GO:-go}" build -o "$tmp/server/workload" ./demo/workload
cd "$tmp/server"
export HOME=$tmp/server
recorded=''
if "$perfark" record -q -g -o perf.data -- ./workload 2s >/dev/null 2>record.err && [ -s perf.data ]; then
	say "On the server: a profile of a small workload"
	echo "\$ perfark record -g -- ./workload"
	recorded=yes
fi
if [ -z "$recorded" ]; then
	cat record.err
	say "Nothing may be recorded here: the sample recording of demo/sample takes its place"
	rm -f perf.data
	cp "$demo/sample/perf.data" perf.data
	export PERF_BUILDID_DIR=$demo/sample/debug
fi

say "On the server: one file with the profile and the exact binaries behind every frame"
show "$perfark" archive --all -o profile.perfark perf.data || [ $? = 3 ]
ls -l profile.perfark

say "One file is carried to a laptop, which has never seen the server"
mv profile.perfark "$tmp/laptop/"
rm -rf "$tmp/server"
unset PERF_BUILDID_DIR
cd "$tmp/laptop"
export HOME=$tmp/laptop
show "$perfark" verify profile.perfark || [ $? = 3 ]

say "On the laptop: unpacked into an empty directory"
show "$perfark" unpack profile.perfark
find . -name 'perf.data' -o -name elf -o -name kallsyms -o -name vdso | sort

say "The report, made from that directory alone"
show "$perfark" report --stdio -i perf.data --percent-limit 1 || [ $? = 3 ]

say "Or without unpacking"
show "$perfark" report --stdio -i profile.perfark --sort dso,sym --percent-limit 10 -q || [ $? = 3 ]
