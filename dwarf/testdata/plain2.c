extern int outer(int);
extern volatile int sink;

static inline __attribute__((always_inline)) int leaf(int x) {
  sink = x * x;
  return sink;
}

__attribute__((noinline)) int second(int x) {
  return leaf(x) + leaf(outer(x));
}
