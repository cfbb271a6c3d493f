#!/bin/bash
# workload.sh DIR SECONDS: two lanes of many different real programs, run in
# DIR until SECONDS are over. Programs that are absent are left out.
set -u
cd "${1:?}" || exit 1
end=$(($(date +%s) + ${2:?}))
work=$(mktemp -d workload.XXXX) && cd "$work" || exit 1

# run COMMAND...: until the time is up, and never longer.
run() {
	local left=$((end - $(date +%s)))
	[ $left -gt 0 ] && command -v "$1" >/dev/null 2>&1 || return 0
	timeout -k 1 $left "$@" >/dev/null 2>&1
	return 0
}
alive() { [ "$(date +%s)" -lt $end ]; }

cat >p.py <<'X'
import re, json, hashlib, collections, random
random.seed(1)
d = [{"id": i, "n": "n%d" % i, "v": [random.random() for _ in range(20)]} for i in range(8000)]
s = json.dumps(d); o = json.loads(s)
c = collections.Counter(re.findall(r"\d+", s))
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
print(fib(24), hashlib.sha256(s.encode()).hexdigest(), c.most_common(2), sorted(o, key=lambda x: x["v"][3])[0]["id"])
X
cat >n.js <<'X'
const o = []; for (let i = 0; i < 200000; i++) o.push({a: i, b: 'x' + (i * 7919 % 10007), c: [i, i + 1]});
o.sort((x, y) => x.b < y.b ? -1 : x.b > y.b ? 1 : 0); const p = JSON.parse(JSON.stringify(o));
function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) }; console.log(p.length, f(30));
X
cat >t.cpp <<'X'
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <unordered_map>
#include <vector>
template <int N> struct Mix { static unsigned long run(unsigned long x) { return Mix<N - 1>::run((x ^ x >> (N % 31 + 1)) * 0x9E3779B97F4A7C15ull + N); } };
template <> struct Mix<0> { static unsigned long run(unsigned long x) { return x; } };
int main() {
  unsigned long s = 0;
  for (int r = 0; r < 60; r++) {
    std::map<std::string, double> m; std::unordered_map<std::string, std::function<int(int)>> u;
    for (int i = 0; i < 4000; i++) { m["k" + std::to_string(i * 7919 % 1009)] += i; u[std::to_string(i % 37)] = [i](int k) { return k + i; }; }
    for (auto &[k, v] : m) s += Mix<40>::run(v) + k.size();
    for (auto &[k, f] : u) s += f(r);
    std::regex re("([a-z]+)([0-9]{2,4})"); std::string t; for (int i = 0; i < 300; i++) t += "abc" + std::to_string(i) + " ";
    s += std::distance(std::sregex_iterator(t.begin(), t.end(), re), std::sregex_iterator());
  }
  std::cout << s << "\n";
}
X
cat >q.pl <<'X'
my %h; for my $i (1..300000) { my $s = sprintf("%08x", $i * 2654435761 % 4294967296); $h{substr($s, 0, 3)}++; $s =~ s/([a-f])/<$1>/g; } print scalar(keys %h), "\n";
X
cat >g.go <<'X'
package main

import ("bytes"; "compress/gzip"; "crypto/sha256"; "encoding/json"; "fmt"; "sort"; "strings")

type r struct { A int; B string; C []float64 }

func main() {
	for k := 0; k < 24; k++ {
		var rs, q []r
		for i := 0; i < 4000; i++ { rs = append(rs, r{i, strings.Repeat("x", i%17) + fmt.Sprint(i*7919%10007), []float64{float64(i), 1.5}}) }
		sort.Slice(rs, func(i, j int) bool { return rs[i].B < rs[j].B })
		b, _ := json.Marshal(rs)
		json.Unmarshal(b, &q)
		var z bytes.Buffer
		g := gzip.NewWriter(&z); g.Write(b); g.Close()
		_ = sha256.Sum256(z.Bytes())
	}
}
X
find /usr/lib -name '*.so*' -type f -size +1M 2>/dev/null | sort | head -40 | xargs cat 2>/dev/null | head -c 40000000 >blob

one() {
	while alive; do
		run g++ -std=c++17 -O2 -g -fno-omit-frame-pointer t.cpp -o t1
		run bzip2 -kc blob; run python3 p.py; run node n.js; run perl q.pl
		run sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do ls -la /usr/bin | sort -k5 -n | awk "{s+=\$5} END {print s}" | sed s/1/2/g; done'
		run ./t1; run xz -1 -kc blob; run clang -std=c++17 -O2 -c t.cpp -o t.o
		run openssl speed -seconds 1 sha256 rsa2048
	done
}
two() {
	local n=0
	while alive; do
		n=$((n + 1))
		run env GOCACHE="$PWD/cache$n" go build -o g g.go
		run ./g; rm -rf "cache$n"
		run sh -c 'rm -rf r; mkdir r && cd r && git init -q . && cp -r /usr/share/perl . && git add -A . && git -c user.name=a -c user.email=a@b commit -qm x && git repack -adq && git grep -c use'
		run gzip -6 -kc blob; run zstd -9 -kc blob; run java -version; run javac -version
		run tar cf - /usr/share/doc; run find /usr/share -name '*.mo'; run objdump -d /usr/bin/openssl
	done
}
one & two & wait
cd .. && rm -rf "$work"
