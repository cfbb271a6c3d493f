# Sourced by test.sh and fuzz.sh: what tests need that Go does not bring.

# want_tools PROGRAM:PACKAGE...: installs the packages of the programs that are
# missing where this user may do so, and says what tests do without.
want_tools() {
	missing=''
	for t in "$@"; do
		command -v "${t%%:*}" >/dev/null 2>&1 || missing="$missing ${t#*:}"
	done
	if [ -n "$missing" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
		echo "setup: installing$missing" >&2
		export DEBIAN_FRONTEND=noninteractive
		# shellcheck disable=SC2086
		apt-get update -qq >/dev/null 2>&1 && apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 ||
			echo "setup: apt-get did not install all of$missing" >&2
	fi
	for t in "$@"; do
		command -v "${t%%:*}" >/dev/null 2>&1 ||
			echo "NOTICE: no ${t%%:*} (Debian package ${t#*:}): the tests that compare with it are skipped" >&2
	done
}

# unpack_corpus: sets PERFARK_CORPUS to a scratch copy of $CORPUS_TAR, if that
# is there and the variable is not set.
unpack_corpus() {
	if [ -n "${PERFARK_CORPUS:-}" ]; then
		return 0
	fi
	if [ ! -f "$CORPUS_TAR" ] || ! command -v xz >/dev/null 2>&1; then
		echo "NOTICE: no $CORPUS_TAR: the tests of real recordings are skipped" >&2
		return 0
	fi
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	trap 'exit 130' INT TERM
	tar -xJf "$CORPUS_TAR" -C "$scratch"
	export PERFARK_CORPUS="$scratch"
}
