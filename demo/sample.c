// The program of the sample recording: see demo/README.md. It needs no
// library, so that every frame is in this one small file.

static unsigned long seed = 1;

__attribute__((noinline)) static unsigned long next(void)
{
	seed = seed * 6364136223846793005UL + 1442695040888963407UL;
	return seed >> 33;
}

__attribute__((noinline)) static unsigned long collatz(unsigned long n)
{
	unsigned long steps = 0;
	for (; n > 1; steps++)
		n = n % 2 ? 3 * n + 1 : n / 2;
	return steps;
}

__attribute__((noinline)) static unsigned long primes(unsigned long below)
{
	unsigned long count = 0;
	for (unsigned long n = 2; n < below; n++) {
		unsigned long d = 2;
		while (d * d <= n && n % d)
			d++;
		count += d * d > n;
	}
	return count;
}

__attribute__((noinline)) static unsigned long round_of_work(void)
{
	unsigned long sum = 0;
	for (int i = 0; i < 2000; i++)
		sum += collatz(next());
	return sum + primes(3000);
}

__attribute__((noinline)) static void run(void)
{
	unsigned long sum = 0;
	for (int i = 0; i < 800; i++)
		sum += round_of_work();
	__asm__ volatile("syscall" : : "a"(60UL), "D"(sum == 0) : "rcx", "r11", "memory");
	__builtin_unreachable();
}

/* The outermost frame: a frame pointer of 0 ends the chain. */
__attribute__((naked)) void _start(void)
{
	__asm__("xor %%ebp, %%ebp\n\tcall %P0" : : "i"(run));
}
