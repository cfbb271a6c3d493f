# What runs on the other host, by sh. Before it stand: mark, which begins each
# line that is for us and not from somebody's .profile; size and sum, of the copy
# of perfark; set --, the arguments of perfark capture.
#
# All that it leaves on the host is in one directory, which two processes remove:
# this one, and the guard, which ends everything when the other side has gone.
umask 077
dir= child= guard=
say() { echo "$mark $*"; }
fail() { say fail "$*"; exit 1; }
over() {
	trap '' HUP INT TERM PIPE
	trap - EXIT
	if test -n "$child"; then
		kill -TERM "$child" 2>/dev/null
		{ sleep 1; kill -TERM "$child"; sleep 1; kill -KILL "$child"; } >/dev/null 2>&1 &
		wait "$child" 2>/dev/null
		kill $! 2>/dev/null
	fi
	cd /
	test -z "$dir" || rm -rf "$dir" 2>/dev/null
	test -z "$guard" || kill "$guard" 2>/dev/null
}
trap over EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 141' PIPE
exec 3<&0

say host "$(uname -s)" "$(uname -m)"
read -r word || exit 1

# A directory of our own, of which programs may be run, with room for the copy.
tried=
for base in "${TMPDIR:-/tmp}" "${XDG_RUNTIME_DIR:-}" /dev/shm "${HOME:-}"; do
	case $base in /*) ;; *) continue ;; esac
	dir=$(mktemp -d "$base/perfark-XXXXXXXXXX" 2>/dev/null) || { dir=; tried="$tried; $base: may not be written to"; continue; }
	free=$(df -Pk "$dir" 2>/dev/null | { while read -r a b c d rest; do free=$d; done; echo "$free"; })
	case $free in '' | *[!0-9]*) free=$((size / 512 + 1)) ;; esac
	if printf '#!/bin/sh\nexit 0\n' 2>/dev/null >"$dir/try" && chmod 700 "$dir/try" && test "$free" -gt $((size / 1024)); then
		"$dir/try" 2>/dev/null && break
		tried="$tried; $base: no program may be run there (noexec)"
	else
		tried="$tried; $base: is full"
	fi
	rm -rf "$dir"
	dir=
done
test -n "$dir" || fail "no directory for a copy of perfark${tried:-: TMPDIR, XDG_RUNTIME_DIR and HOME are not set}"
rm -f "$dir/try"

pack=plain
command -v gzip >/dev/null 2>&1 && pack=gzip
say ready "$pack"
read -r count || exit 1
case $pack in
gzip) head -c "$count" | gzip -dc >"$dir/perfark" ;;
*) head -c "$count" >"$dir/perfark" ;;
esac || fail "the copy of perfark could not be written to $dir"
got=$(($(wc -c <"$dir/perfark")))
test "$got" -eq "$size" || fail "the copy of perfark in $dir has $got bytes, not $size"
if command -v sha256sum >/dev/null 2>&1; then
	case $(sha256sum <"$dir/perfark") in "$sum"*) ;; *) fail "the copy of perfark in $dir is damaged" ;; esac
fi
chmod 700 "$dir/perfark"
case $("$dir/perfark" version </dev/null) in perfark*) ;; *) fail "the copy of perfark in $dir does not run" ;; esac

"$dir/perfark" capture -o "$dir/out" "$@" </dev/null >&2 3<&- &
child=$!
{
	trap '' HUP INT PIPE
	while read -r word; do
		test -e "$dir/done" || kill -INT "$child"
	done
	for s in TERM TERM KILL; do
		test -d "$dir" && test ! -e "$dir/done" || break
		kill -$s "$child" || break
		sleep 1
	done
	rm -rf "$dir"
} <&3 >/dev/null 2>&1 &
guard=$!
say begin "$dir/out"
wait "$child"
status=$?
child=
: >"$dir/done"
if test -f "$dir/out"; then
	say bundle $(($(wc -c <"$dir/out")))
	cat "$dir/out" || exit 1
fi
say end "$status"
exit 0
