#!/bin/sh
# fuzz.sh: make fuzz. Runs every fuzz target for FUZZTIME.
set -eu
cd "$(dirname "$0")/.."
. scripts/setup.sh
GO=${GO:-go}
CORPUS_TAR=${CORPUS_TAR:-../shared/corpus/corpus.tar.xz}
unpack_corpus

failed=''
for file in $(git ls-files -co --exclude-standard '*_test.go' | xargs grep -l '^func Fuzz' | sort); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$file"); do
		dir=$(dirname "$file")
		echo "fuzz: ./$dir $target"
		$GO test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-1m}" -fuzzminimizetime 10x "./$dir" || failed="$failed $dir:$target"
	done
done
if [ -n "$failed" ]; then
	echo "fuzz: failed:$failed" >&2
	exit 1
fi
