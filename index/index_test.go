package index

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/objfile"
)

func id(s string) buildid.ID {
	x, err := buildid.Parse(s)
	if err != nil {
		panic(err)
	}
	return x
}

var testID = Identity{ID: id("0123456789abcdef"), Sources: [32]byte{1}, Layout: [32]byte{2}, Quality: objfile.FullDWARF}

// chain returns frames that differ by n.
func chain(n int) []Frame {
	var out []Frame
	for i := range n % 5 {
		out = append(out, Frame{Name: fmt.Sprint("inl", n%7, i), Linkage: fmt.Sprint("_Z", i), Mangled: n%2 == 0, File: fmt.Sprint("/src/", n%3, ".c"), Line: uint32(n + i)})
	}
	return append(out, Frame{Name: fmt.Sprint("f", n%100), File: "/src/main.c", Line: uint32(n % 1000), Start: uint64(n)})
}

func sample(n int) *Builder {
	b := new(Builder)
	for i := range n {
		at := uint64(i) * 16
		switch {
		case i%10 == 3:
			b.Symbol(at, at+1, nil)
			b.Frames(at, at+16, nil)
		default:
			s := &Symbol{Name: fmt.Sprint("f", i/8), Linkage: fmt.Sprint("_f", i/8), Start: uint64(i/8) * 128, End: uint64(i/8)*128 + 128}
			b.Symbol(at, at+1, s)
			b.Frames(at, at+16, chain(i))
		}
	}
	return b
}

func encode(t testing.TB, b *Builder) []byte {
	var out bytes.Buffer
	if err := b.WriteTo(&out, testID); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 100, 20_000} {
		raw := encode(t, sample(n))
		f, err := Open(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			t.Fatal(err)
		}
		if f.Identity != testID {
			t.Errorf("identity %+v, want %+v", f.Identity, testID)
		}
		var again Builder
		if err := again.Merge(f); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(encode(t, &again), raw) && n < 2 {
			t.Errorf("%d: merged into nothing it is another index", n)
		}
		for i := range n {
			at := uint64(i) * 16
			ref, ok, err := f.FindSymbol(at)
			if err != nil || !ok {
				t.Fatalf("FindSymbol(%#x) = %v, %v", at, ok, err)
			}
			var want []Frame
			if i%10 == 3 {
				if ref != 0 {
					t.Errorf("FindSymbol(%#x) = %d, want 0", at, ref)
				}
			} else {
				want = chain(i)
				s, err := f.Symbol(ref)
				if w := (Symbol{fmt.Sprint("f", i/8), fmt.Sprint("_f", i/8), uint64(i/8) * 128, uint64(i/8)*128 + 128}); s != w || err != nil {
					t.Errorf("Symbol(%#x) = %+v, %v, want %+v", at, s, err, w)
				}
			}
			if _, ok, _ := f.FindSymbol(at + 1); ok {
				t.Errorf("FindSymbol(%#x): it was not added", at+1)
			}
			for _, at := range []uint64{at, at + 15} {
				ref, ok, err := f.FindFrames(at)
				if err != nil || !ok {
					t.Fatalf("FindFrames(%#x) = %v, %v", at, ok, err)
				}
				if got, err := f.Frames(ref, nil); !reflect.DeepEqual(got, want) || err != nil {
					t.Errorf("Frames(%#x) = %+v, %v, want %+v", at, got, err, want)
				}
			}
		}
		if _, ok, err := f.FindFrames(uint64(n) * 16); ok || err != nil {
			t.Errorf("behind the end: %v, %v", ok, err)
		}
	}
}

// TestOrder: what is found does not depend on what was asked before.
func TestOrder(t *testing.T) {
	const n = 5000
	raw := encode(t, sample(n))
	f, err := Open(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		i := r.IntN(n + 2)
		at := uint64(i)*16 + uint64(r.IntN(16))
		ref, ok, err := f.FindFrames(at)
		if ok != (i < n) || err != nil {
			t.Fatalf("FindFrames(%#x) = %v, %v", at, ok, err)
		}
		if got, _ := f.Frames(ref, nil); ok && i%10 != 3 && !reflect.DeepEqual(got, chain(i)) {
			t.Fatalf("Frames(%#x) = %+v, want %+v", at, got, chain(i))
		}
		s, ok, err := f.FindSymbol(at)
		if ok != (i < n && at%16 == 0) || err != nil {
			t.Fatalf("FindSymbol(%#x) = %v, %v", at, ok, err)
		}
		if got, _ := f.Symbol(s); ok && s != 0 && got.Name != fmt.Sprint("f", i/8) {
			t.Fatalf("Symbol(%#x) = %+v", at, got)
		}
	}
}

// TestStrings: strings of all lengths, across the ends of blocks.
func TestStrings(t *testing.T) {
	b := new(Builder)
	name := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), i*i/7%300) + fmt.Sprint(i) }
	const n = 2000
	for i := range n {
		b.Frames(uint64(i), uint64(i)+1, []Frame{{Name: name(i), File: name(n - i), Line: 1}})
	}
	raw := encode(t, b)
	f, err := Open(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		ref, _, _ := f.FindFrames(uint64(i))
		if got, err := f.Frames(ref, nil); err != nil || len(got) != 1 || got[0].Name != name(i) || got[0].File != name(n-i) {
			t.Fatalf("%d: %+v, %v", i, got, err)
		}
	}
}

// TestOverlap: ranges are made disjoint, and those that touch and agree become
// one.
func TestOverlap(t *testing.T) {
	var b Builder
	x, y := []Frame{{Name: "x"}}, []Frame{{Name: "y"}}
	b.Frames(10, 20, x)
	b.Frames(20, 30, x)
	b.Frames(12, 14, x)
	b.Frames(28, 40, y)
	b.Frames(10, 20, x)
	b.Frames(0, 0, y)
	raw := encode(t, &b)
	f, err := Open(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	if f.Len() != 2 {
		t.Errorf("%d ranges, want 2", f.Len())
	}
	for at, want := range map[uint64]string{9: "", 10: "x", 19: "x", 20: "x", 29: "x", 30: "y", 39: "y", 40: ""} {
		ref, ok, err := f.FindFrames(at)
		if err != nil || ok != (want != "") {
			t.Fatalf("FindFrames(%d) = %v, %v", at, ok, err)
		}
		if ok {
			if got, _ := f.Frames(ref, nil); got[0].Name != want {
				t.Errorf("at %d: %q, want %q", at, got[0].Name, want)
			}
		}
	}
}

// TestDamage: each flipped byte and each cut is noticed before anything of the
// damaged part is used.
func TestDamage(t *testing.T) {
	raw := encode(t, sample(1000))
	use := func(b []byte) error {
		f, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return err
		}
		return new(Builder).Merge(f)
	}
	if err := use(raw); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(raw); i += 1 + i/64 {
		b := bytes.Clone(raw)
		b[i] ^= 0x40
		if err := use(b); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %#x flipped: %v", i, err)
		}
		if err := use(raw[:i]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut at %#x: %v", i, err)
		}
	}
	if err := use(append(bytes.Clone(raw), 0)); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte too many: %v", err)
	}
	// A damaged block is no harm to what lies in others.
	b := bytes.Clone(raw)
	b[len(b)-5000] ^= 1
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := f.FindSymbol(16); !ok || err != nil {
		t.Errorf("FindSymbol = %v, %v", ok, err)
	}
}

func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "index")
	c := NewCache(dir, 0)
	if _, err := c.Get(testID.ID); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Get of nothing: %v", err)
	}
	if err := c.Put(testID, sample(10)); err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(dir); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v, want mode 0700", fi.Mode(), err)
	}
	f, err := c.Get(testID.ID)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if f.Identity != testID {
		t.Errorf("identity %+v", f.Identity)
	}
	at := filepath.Join(dir, "01", "23456789abcdef.index")
	fi, err := os.Stat(at)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}

	// B22, B23: what a poorer file says replaces nothing; what a better one says
	// replaces all.
	poor := testID
	poor.Quality, poor.Sources = objfile.Dynsym, [32]byte{9}
	if err := c.Put(poor, sample(20)); err != nil {
		t.Fatal(err)
	}
	if f, err := c.Get(testID.ID); err != nil || f.Identity != testID {
		t.Errorf("a poorer index replaced a better one: %v", err)
	}
	if testID.Serves(poor) != true || poor.Serves(testID) != false {
		t.Errorf("a better index serves a poorer file, a poorer index no better file")
	}
	if !poor.Serves(Identity{ID: poor.ID}) {
		t.Errorf("an index does not serve where there is no file")
	}
	other := poor
	other.Layout = [32]byte{7}
	if testID.Serves(other) {
		t.Errorf("an index of another program serves")
	}

	// A damaged one is said to be, and replaced.
	if err := os.WriteFile(at, []byte("PFKINDEX"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(testID.ID); !errors.Is(err, ErrDamaged) {
		t.Errorf("Get of damage: %v", err)
	}
	if err := c.Put(poor, sample(20)); err != nil {
		t.Fatal(err)
	}
	if f, err := c.Get(testID.ID); err != nil || f.Identity != poor {
		t.Errorf("damage was not replaced: %v", err)
	}

	// A directory that others may write to is not used.
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(testID.ID); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Get from a directory of everybody: %v", err)
	}
	if err := c.Put(testID, sample(1)); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("Put into a directory of everybody: %v", err)
	}
}

// What stands in an index's place and is no file is not waited for.
func TestCacheFIFO(t *testing.T) {
	c := NewCache(t.TempDir(), 0)
	if err := c.Put(testID, sample(10)); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(c.Dir(), name(testID.ID))
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at, 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := c.Get(testID.ID); !errors.Is(err, ErrDamaged) {
		t.Errorf("Get of a FIFO: %v", err)
	}
	if err := c.Put(testID, sample(20)); err != nil {
		t.Errorf("Put over a FIFO: %v", err)
	}
	if f, err := c.Get(testID.ID); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
}

func TestTrim(t *testing.T) {
	dir := t.TempDir()
	c := NewCache(dir, 0)
	size := int64(len(encode(t, sample(100))))
	var ids []buildid.ID
	for i := range 5 {
		x := testID
		x.ID = id(fmt.Sprintf("aa%02d456789abcdef", i))
		ids = append(ids, x.ID)
		if err := c.Put(x, sample(100)); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Duration(10-i) * 24 * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, name(x.ID)), old, old); err != nil {
			t.Fatal(err)
		}
	}
	// The oldest is used, which makes it the newest.
	f, err := c.Get(ids[0])
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := os.WriteFile(filepath.Join(dir, tempMark+"x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.max = 3 * size
	if err := c.Trim(); err != nil {
		t.Fatal(err)
	}
	for i, x := range ids {
		_, err := c.Get(x)
		if want := i == 0 || i > 2; (err == nil) != want {
			t.Errorf("index %d: %v, want it kept: %v", i, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, tempMark+"x")); err != nil {
		t.Errorf("a temporary file that may be written just now: %v", err)
	}
}

// TestManyWriters: whoever reads sees a whole index, whatever is written at the
// same time.
func TestManyWriters(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			c := NewCache(dir, 1)
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for range 10 {
				if err := c.Put(testID, sample(100+r.IntN(400))); err != nil {
					t.Error(err)
					return
				}
				f, err := c.Get(testID.ID)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if err := new(Builder).Merge(f); err != nil {
					t.Error(err)
				}
				f.Close()
				if r.IntN(10) == 0 {
					if err := c.Trim(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	list, _ := filepath.Glob(filepath.Join(dir, tempMark+"*"))
	if len(list) > 0 {
		t.Errorf("left over: %s", strings.Join(list, " "))
	}
}

func FuzzOpen(f *testing.F) {
	raw := encode(f, sample(40))
	f.Add(raw, uint64(16))
	f.Add(raw[:headerSize], uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, addr uint64) {
		// Checksums would keep the fuzzer out: they are made right.
		b = fixSums(b)
		x, err := Open(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		if ref, ok, err := x.FindSymbol(addr); ok && err == nil {
			x.Symbol(ref)
		}
		if ref, ok, err := x.FindFrames(addr); ok && err == nil {
			x.Frames(ref, nil)
		}
		if x.Len() < 1000 {
			new(Builder).Merge(x)
		}
	})
}

func BenchmarkWarm(b *testing.B) {
	const n = 20_000
	raw := encode(b, sample(n))
	b.ReportMetric(float64(len(raw))/n, "bytes/range")
	for b.Loop() {
		f, err := Open(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			b.Fatal(err)
		}
		var buf []Frame
		for i := range uint64(n) {
			ref, _, err := f.FindFrames(i * 16)
			if err != nil {
				b.Fatal(err)
			}
			if buf, err = f.Frames(ref, buf[:0]); err != nil {
				b.Fatal(err)
			}
		}
	}
}
