package perfdata

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/perfark/perfark/internal/perftest"
)

// TestCopyCorpus writes every recording of the corpus anew: the same bytes.
func TestCopyCorpus(t *testing.T) {
	dir := perftest.Corpus(t)
	for _, rel := range perftest.CorpusFiles(t) {
		checkCopy(t, filepath.Join(dir, rel))
	}
}

func checkCopy(t *testing.T, name string) {
	t.Helper()
	f, err := Open(name, Options{})
	if err != nil {
		if errors.Is(err, ErrNotPerfData) {
			return
		}
		t.Errorf("%v", err)
		return
	}
	defer f.Close()
	if f.Header().Wrapped != "" || f.Header().Dir {
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := copyFile(&got, f); err != nil {
		t.Errorf("%v", err)
		return
	}
	if i := differ(got.Bytes(), want); i >= 0 {
		t.Errorf("%s: copied %d bytes, has %d: they differ at %#x", name, got.Len(), len(want), i)
	}
}

// differ returns where a and b first differ, -1 if nowhere.
func differ(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	if len(a) != len(b) {
		return min(len(a), len(b))
	}
	return -1
}

// TestAppendRecordCorpus encodes every record of the corpus anew: it decodes
// to the same again, and where nothing but numbers is in it, it is the same
// bytes. (Names are followed by what was in the kernel's memory, a stack dump
// by what is not valid, sets of CPUs have three forms.)
func TestAppendRecordCorpus(t *testing.T) {
	dir := perftest.Corpus(t)
	n := 0
	for _, rel := range perftest.CorpusFiles(t) {
		f, err := Open(filepath.Join(dir, rel), Options{})
		if err != nil {
			continue
		}
		n += checkAppendRecord(t, f)
		f.Close()
	}
	if n < 100000 {
		t.Errorf("only %d records in the corpus", n)
	}
}

// otherBytes are the types whose bytes may differ.
var otherBytes = map[Type]bool{
	RecordMmap: true, RecordMmap2: true, RecordComm: true, RecordEventType: true, RecordEventUpdate: true,
	RecordCPUMap: true, RecordTimeConv: true, RecordTracingData: true,
}

func checkAppendRecord(t *testing.T, f *File) (n int) {
	t.Helper()
	big := f.Header().Big
	br := f.Batches(context.Background())
	d, again := NewDecoder(f), NewDecoder(f)
	for {
		b, err := br.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			t.Fatal(err)
		}
		for data := b.Data; len(data) >= 8; {
			typ, _, size := RecordHeader(data, big)
			raw := data[:size]
			data = data[size:]
			r, err := d.Decode(raw, 0)
			if err != nil {
				continue
			}
			n++
			got, err := AppendRecord(nil, r, attrOf(f, r), big)
			if err != nil {
				t.Errorf("%s: %v", f.Name(), err)
				continue
			}
			if bytes.Equal(got, raw) {
				continue
			}
			s, _ := r.(*Sample)
			if !otherBytes[typ] && (s == nil || s.UserStack == nil) {
				t.Fatalf("%s: %s is\n     %x\nwas  %x", f.Name(), typ, got, raw)
			}
			r2, err := again.Decode(got, 0)
			if err != nil {
				t.Errorf("%s: %s: %v", f.Name(), typ, err)
				continue
			}
			r2.Head().Size = r.Head().Size
			if s != nil && len(s.UserStack) == 0 {
				s.UserStack = nil // a dump of which nothing was valid
				s.StackAt, r2.(*Sample).StackAt = 0, 0
			}
			if !reflect.DeepEqual(r2, r) {
				t.Fatalf("%s: %s is\n     %+v\nwas  %+v", f.Name(), typ, r2, r)
			}
		}
		b.Release()
	}
}

// attrOf returns the attr of the event that a record belongs to.
func attrOf(f *File, r Record) *Attr {
	i := 0
	if s, ok := r.(*Sample); ok {
		i = max(s.Event, 0)
	} else if id := r.Head().ID; id != 0 {
		for j, e := range f.Events() {
			for _, x := range e.IDs {
				if x == id {
					i = j
				}
			}
		}
	}
	if i >= len(f.Events()) {
		return nil
	}
	return &f.Events()[i].Attr
}
