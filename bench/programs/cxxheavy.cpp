// template-heavy C++: many instantiations, deep inlining, STL containers, regex, variant visiting.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <unordered_map>
#include <variant>
#include <vector>
namespace heavy {
template <int N> struct Mix { static inline uint64_t run(uint64_t x) { x ^= x >> (N % 31 + 1); x *= 0x9E3779B97F4A7C15ull + N; return Mix<N - 1>::run(x); } };
template <> struct Mix<0> { static inline uint64_t run(uint64_t x) { return x; } };
struct Circle { double r; }; struct Square { double a; }; struct Tri { double a, b, c; };
using Shape = std::variant<Circle, Square, Tri>;
struct Area {
  double operator()(const Circle &c) const { return 3.14159 * c.r * c.r; }
  double operator()(const Square &s) const { return s.a * s.a; }
  double operator()(const Tri &t) const { double p = (t.a + t.b + t.c) / 2; return p * (p - t.a + 1) * (p - t.b + 1); }
};
template <typename K, typename V, template <typename...> class M> struct Table {
  M<K, V> m;
  template <typename F> auto each(F &&f) { V s{}; for (auto &kv : m) s += std::invoke(f, kv.first, kv.second); return s; }
  void add(K k, V v) { m[k] += v; }
};
template <typename... Ts> struct Multi { std::tuple<Ts...> t;
  template <typename F> void all(F &&f) { std::apply([&](auto &...x) { (f(x), ...); }, t); } };
struct Node { virtual ~Node() = default; virtual uint64_t eval(int d) const = 0; };
template <int N> struct NodeN : Node { std::vector<std::unique_ptr<Node>> kids; uint64_t seed = N;
  uint64_t eval(int d) const override { uint64_t s = Mix<(N % 20) + 4>::run(seed + d); if (d > 0) for (auto &k : kids) s += k->eval(d - 1); return s; } };
template <int N> std::unique_ptr<Node> build(int depth) {
  auto n = std::make_unique<NodeN<N>>();
  if (depth > 0) { if constexpr (N > 1) { n->kids.push_back(build<N - 1>(depth - 1)); n->kids.push_back(build<N / 2>(depth - 1)); } }
  return n; }
template <typename T, size_t N> struct Mat { std::array<std::array<T, N>, N> v{};
  Mat operator*(const Mat &o) const { Mat r; for (size_t i = 0; i < N; i++) for (size_t j = 0; j < N; j++) { T s{}; for (size_t k = 0; k < N; k++) s += v[i][k] * o.v[k][j]; r.v[i][j] = s; } return r; } };
template <typename It, typename Cmp> void qs(It a, It b, Cmp c, int d = 0) {
  if (b - a < 16) { std::sort(a, b, c); return; }
  auto p = *(a + (b - a) / 2); auto m1 = std::partition(a, b, [&](auto &x) { return c(x, p); });
  auto m2 = std::partition(m1, b, [&](auto &x) { return !c(p, x); }); qs(a, m1, c, d + 1); qs(m2, b, c, d + 1); }
template <size_t... I> uint64_t mats(std::index_sequence<I...>) { return ((uint64_t)(((Mat<double, I + 3>{}) * (Mat<double, I + 3>{})).v[0][0]) + ...); }
}
using namespace heavy;
int main(int argc, char **argv) {
  double secs = argc > 1 ? atof(argv[1]) : 5; std::mt19937_64 rng(42); uint64_t sink = 0;
  auto t0 = std::chrono::steady_clock::now();
  auto tree = build<28>(14);
  std::regex re("([a-z]+)([0-9]{2,4})-(foo|bar|ba[zq])");
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - t0).count() < secs) {
    std::vector<Shape> sh; for (int i = 0; i < 3000; i++) { auto x = rng(); if (x % 3 == 0) sh.push_back(Circle{double(x % 97)}); else if (x % 3 == 1) sh.push_back(Square{double(x % 89)}); else sh.push_back(Tri{3, 4, double(x % 7)}); }
    double a = 0; for (auto &s : sh) a += std::visit(Area{}, s); sink += (uint64_t)a;
    Table<std::string, double, std::map> tm; Table<std::string, double, std::unordered_map> tu;
    for (int i = 0; i < 2000; i++) { auto k = "key" + std::to_string(rng() % 700); tm.add(k, i); tu.add(k, i); }
    sink += (uint64_t)tm.each([](const std::string &k, double v) { return v + k.size(); }); sink += (uint64_t)tu.each([](const std::string &k, double v) { return v * k.size(); });
    std::vector<std::pair<std::string, int>> v; for (int i = 0; i < 4000; i++) v.emplace_back(std::to_string(rng()), i);
    qs(v.begin(), v.end(), [](const auto &x, const auto &y) { return x.first < y.first; }); sink += v[0].second;
    std::list<int> l; for (auto &p : v) l.push_back(p.second); l.sort(std::greater<>{}); sink += l.front();
    Multi<std::vector<int>, std::deque<int>, std::set<int>> mu; mu.all([&](auto &c) { for (int i = 0; i < 1500; i++) c.insert(c.end(), int(rng() % 10000)); }); mu.all([&](auto &c) { sink += std::accumulate(c.begin(), c.end(), 0ull); });
    std::string txt; for (int i = 0; i < 60; i++) txt += "abc" + std::to_string(rng() % 9999) + "-baz "; for (std::sregex_iterator it(txt.begin(), txt.end(), re), e; it != e; ++it) sink += (*it)[1].length();
    sink += tree->eval(9); sink += mats(std::make_index_sequence<12>{});
    std::stringstream ss; for (int i = 0; i < 500; i++) ss << i << ' ' << i * 0.5 << '\n'; std::string w; while (ss >> w) sink += w.size();
    std::function<uint64_t(int)> fib = [&](int n) -> uint64_t { return n < 2 ? n : fib(n - 1) + fib(n - 2); }; sink += fib(15);
  }
  printf("%llu\n", (unsigned long long)sink);
}
