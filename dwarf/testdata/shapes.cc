// Functions inlined into each other, in namespaces, classes, templates and
// lambdas, and one in two parts.
#include <algorithm>
#include <vector>

volatile int sink;

namespace geo {
namespace {
inline __attribute__((always_inline)) int hidden(int x) {
  sink = x;
  return x * 3;
}
} // namespace

struct Point {
  int x, y;
  inline __attribute__((always_inline)) int norm() const { return hidden(x) + hidden(y); }
};

template <typename T> inline __attribute__((always_inline)) T twice(T v) {
  sink = v;
  return v + v;
}

template <typename T> struct Box {
  T v;
  __attribute__((noinline)) T get(int n) const {
    T s = v;
    for (int i = 0; i < n; i++)
      s += twice(s) + i;
    return s;
  }
};
} // namespace geo

static __attribute__((noinline)) int cold(int x) {
  if (__builtin_expect(x > 1000, 0)) {
    sink = x;
    __builtin_trap();
  }
  geo::Point p{x, x + 1};
  return p.norm();
}

int main(int argc, char **argv) {
  std::vector<int> v;
  for (int i = 0; i < 100 * argc; i++)
    v.push_back((i * 7919) % 101);
  auto less = [argc](int a, int b) {
    sink = a;
    return a * argc < b * argc;
  };
  std::sort(v.begin(), v.end(), less);
  struct Local {
    static int call(int x) { return geo::twice(x) + cold(x); }
  };
  geo::Box<int> b{argc};
  geo::Box<long> c{argc};
  return Local::call(v[0]) + b.get(3) + int(c.get(4));
}
