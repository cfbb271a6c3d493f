#!/bin/sh
# test.sh: make test. Installs what the tests need where it may, says which
# tests it has to skip where it may not, and runs vet, staticcheck and the
# tests with the race detector.
set -eu
cd "$(dirname "$0")/.."
. scripts/setup.sh
GO=${GO:-go}
STATICCHECK=${STATICCHECK:-$GO run honnef.co/go/tools/cmd/staticcheck@v0.8.2}
CORPUS_TAR=${CORPUS_TAR:-../shared/corpus/corpus.tar.xz}

want_tools perf:linux-perf readelf:binutils gcc:gcc g++:g++ xz:xz-utils zstd:zstd bzip2:bzip2 gzip:gzip tar:tar unshare:util-linux ld.lld:lld mold:mold eu-strip:elfutils zip:zip sshd:openssh-server ssh:openssh-client systemd-analyze:systemd strace:strace tmux:tmux
unpack_corpus

unformatted=$(gofmt -l . 2>/dev/null || true)
if [ -n "$unformatted" ]; then
	echo "gofmt: $unformatted" >&2
	exit 1
fi
echo "test: go vet"
$GO vet ./...
echo "test: staticcheck"
if ! $STATICCHECK -version >/dev/null 2>&1; then
	echo "NOTICE: staticcheck cannot be had here: skipped" >&2
else
	$STATICCHECK ./...
fi
race=-race
if ! command -v gcc >/dev/null 2>&1 && ! command -v clang >/dev/null 2>&1; then
	echo "NOTICE: no C compiler: the tests run without the race detector" >&2
	race=''
else
	export CGO_ENABLED=1
fi
# Tests that record run a perfark of their own, in which the race detector is
# not; the decoders read whole libraries and have no goroutines. They are run
# apart, without it. Others record all that runs on the host: nothing else may.
records='^Test(Record|Capture|Identity)'
alone='^TestArchive(Carry|Namespace)$'
echo "test: go test $race ./..."
# shellcheck disable=SC2046,SC2086
$GO test $race -timeout 20m $($GO list ./... | grep -vE '/(disasm|cmd/perfark)$')
# shellcheck disable=SC2086
GO=$GO scripts/shares.sh . "$records|$alone" $race
# shellcheck disable=SC2086
$GO test $race -timeout 20m -run "$alone" ./cmd/perfark
echo "test: go test of what records, and of the decoders"
GO=$GO scripts/shares.sh "$records" '^$'
$GO test -timeout 10m ./disasm
make -s disasm/iced/iced.go
if [ -s disasm/iced/iced.go ]; then
	echo "test: go test -tags iced ./disasm, annotate"
	$GO test -tags iced -timeout 10m ./disasm
	$GO test -tags iced -timeout 10m -run TestAnnotate ./cmd/perfark
fi
