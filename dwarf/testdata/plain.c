volatile int sink;

static inline __attribute__((always_inline)) int inner(int x) {
  sink = x;
  return x + 1;
}

static inline __attribute__((always_inline)) int middle(int x) {
  int s = 0;
  for (int i = 0; i < x; i++)
    s += inner(i) * inner(x);
  return s;
}

__attribute__((noinline)) int outer(int x) {
  {
    int y = middle(x);
    sink = y;
  }
  return middle(x + 1);
}

__attribute__((noinline)) int other(int x) {
  switch (x) {
  case 1: return inner(1);
  case 2: return middle(2);
  }
  return outer(x);
}

int main(int argc, char **argv) { return outer(argc) + other(argc); }
