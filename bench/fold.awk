# fold.awk: perf script -F comm,ip,sym into one line a stack, outermost frame
# first, and how often it was met.
/^[^ \t]/ { comm = $0; sub(/[ \t]+$/, "", comm); n = 0; next }
NF { name = $2; for (i = 3; i <= NF; i++) name = name " " $i; frames[n++] = name; next }
n || comm != "" {
	s = comm
	while (n > 0) s = s ";" frames[--n]
	count[s]++
	comm = ""
}
END { for (s in count) print s, count[s] }
