#!/bin/sh
# shares.sh MATCH SKIP [FLAGS]: runs the tests of cmd/perfark that the extended
# regular expression MATCH matches and SKIP does not, compiled with FLAGS. They
# wait for other programs a lot, and have a directory and an environment of
# their own, so each process runs a few of them, and several processes run at
# once: JOBS, one more than there are processors if that is not set.
set -eu
cd "$(dirname "$0")/../cmd/perfark"
GO=${GO:-go}
match=$1 skip=$2
shift 2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM
$GO test "$@" -c -o "$dir/perfark.test" .
"$dir/perfark.test" -test.list "$match" | grep -E '^(Test|Fuzz|Example)' | grep -vE "$skip" >"$dir/tests"
jobs=${JOBS:-$(($(nproc 2>/dev/null || echo 1) + 1))}
echo "$(wc -l <"$dir/tests") tests of cmd/perfark, $jobs at once"
# A share ends with all that it printed if one of its tests fails.
# shellcheck disable=SC2016
xargs -n 3 -P "$jobs" sh -c '
	test=$0
	names=$(IFS="|"; echo "$*")
	out=$("$test" -test.paniconexit0 -test.timeout 20m -test.run "^($names)\$" 2>&1) || { printf "%s\n" "$out"; exit 1; }
' "$dir/perfark.test" <"$dir/tests"
