#!/usr/bin/env bash
# What perfark capture does, with the parts: pipeline.sh OUT.perfark COMMAND [ARG...]
set -euo pipefail
out=$1 && shift
dir=$(mktemp -d "$(dirname "$out")/.pipeline-XXXXXXXX")
trap 'rm -rf "$dir"' EXIT
perfark --buildid-dir "$dir/debug" record -q -g -o "$dir/perf.data" -- "$@"
perfark --buildid-dir "$dir/debug" archive --all --allow-missing -o "$out" "$dir/perf.data"
perfark verify --allow-missing "$out"
perfark report -i "$out" --stdio --percent-limit 1 >"$dir/report"
mv "$dir/report" "${out%.perfark}.txt"
