package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/perfark/perfark/buildid"
	"github.com/perfark/perfark/internal/decode"
	"github.com/perfark/perfark/store"
)

// A Defect is something in an archive that is not as it should be.
type Defect struct {
	Name Name   `json:"name"` // of the file or link in the archive
	What string `json:"what"` // what was found and what was wanted
}

// A Report says what Verify found.
type Report struct {
	Files    int      `json:"files"`          // files read
	Bytes    int64    `json:"bytes"`          // of these files
	Slim     int      `json:"slim,omitempty"` // files that are slim copies: checked as they are, and by what the replay names
	Unhashed int      `json:"unhashed"`       // files without a recorded hash: all of perf's archives
	Defects  []Defect `json:"defects"`        // sorted by name
}

// VerifyOptions says how to verify an archive.
type VerifyOptions struct {
	Workers  int           // 0 means one per CPU
	Limits   decode.Limits // per file read
	Progress Progress      // may be nil
}

// Verify reads every byte of an archive. It checks each file against its hash
// and its size, the Build ID in the bytes of each object against the one it
// answers for, and each link. Defects are in the report; the error is for an
// archive that cannot be read.
func (a *Archive) Verify(ctx context.Context, o VerifyOptions) (*Report, error) {
	v := &verifier{a: a, o: o, report: Report{Defects: []Defect{}}, meter: &meter{report: o.Progress}}
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	objects := a.Objects()
	for i := range objects {
		for _, f := range objects[i].Files {
			v.meter.total += f.Size
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers)
	if m := a.Manifest(); m != nil && m.Data != nil && m.Data.Included {
		r, size, _ := a.Data()
		v.meter.total += size
		g.Go(func() error { return v.data(ctx, r, size, m.Data.SHA256) })
	}
	seen := map[Name]bool{}
	for i := range objects {
		obj := &objects[i]
		for k := range obj.Files {
			f := &obj.Files[k]
			if seen[f.Name] {
				continue
			}
			seen[f.Name] = true
			g.Go(func() error { return v.file(ctx, obj, f) })
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	v.links(objects)
	slices.SortFunc(v.report.Defects, func(x, y Defect) int {
		return strings.Compare(string(x.Name)+"\x00"+x.What, string(y.Name)+"\x00"+y.What)
	})
	return &v.report, nil
}

// A verifier is the state of one call of Verify.
type verifier struct {
	a     *Archive
	o     VerifyOptions
	meter *meter

	mu     sync.Mutex
	report Report
}

func (v *verifier) defect(name Name, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Defects = append(v.report.Defects, Defect{name, fmt.Sprintf(format, args...)})
}

func (v *verifier) count(size int64, hashed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Files++
	v.report.Bytes += size
	if !hashed {
		v.report.Unhashed++
	}
}

// file checks a file of an object.
func (v *verifier) file(ctx context.Context, obj *Object, f *File) error {
	m, err := v.a.OpenMember(f.Name)
	if err != nil {
		v.defect(f.Name, "%v", err)
		return nil
	}
	defer m.Close()
	r, err := read(ctx, m, f.Kind, v.o.Limits, v.meter.of(string(f.Name)))
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v.defect(f.Name, "cannot be read: %v", err)
		return nil
	}
	v.count(m.Size, f.SHA256 != "")
	if r.slim {
		v.mu.Lock()
		v.report.Slim++
		v.mu.Unlock()
	}
	if f.SHA256 != "" && r.slim != f.Slim {
		v.defect(f.Name, "%s", slimness(r.slim, f.Slim))
	}
	if f.SHA256 != "" && (r.sum != f.SHA256 || r.size != f.Size) {
		v.defect(f.Name, "sha256 is %s of %d bytes, want %s of %d", r.sum, r.size, f.SHA256, f.Size)
	}
	if carriesID(f.Kind) && obj.ID != "" && !r.id.Match(obj.ID) {
		v.defect(f.Name, "carries build id %s, want %s", orNone(r.id), obj.ID)
	}
	if f.Kind == store.Index {
		if err := checkIndex(m, obj.ID); err != nil {
			v.defect(f.Name, "%v", err)
		}
	}
	if obj.ID == "" && !isLog(f.Kind) {
		// Objects without an id stand under the hash of their main file.
		if dir := path.Base(path.Dir(string(f.Name))); f.Kind == store.ELF && dir != r.sum {
			v.defect(f.Name, "stands under the hash %s, but has %s", dir, r.sum)
		}
	}
	return nil
}

// slimness says that a file is not as slim as the manifest has it.
func slimness(is, want bool) string {
	if is && !want {
		return "is a slim copy, but the manifest does not call it one"
	}
	return "is not marked as the slim copy that the manifest calls it"
}

// data checks the recording.
func (v *verifier) data(ctx context.Context, r io.ReaderAt, size int64, want string) error {
	h := sha256.New()
	if err := stream(ctx, r, size, io.MultiWriter(h, v.meter.of(dataName))); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v.defect(dataName, "cannot be read: %v", err)
		return nil
	}
	v.count(size, true)
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		v.defect(dataName, "sha256 is %s, want %s", got, want)
	}
	return nil
}

// links checks that the link of every id leads to an object that has it, and
// that every object with an id has one.
func (v *verifier) links(objects []Object) {
	dirs := map[string][]string{} // by id in hex
	for i := range objects {
		o := &objects[i]
		if o.ID != "" && !o.pooled() && !isKcore(o.Files[0].Kind) {
			dirs[o.ID.String()] = append(dirs[o.ID.String()], path.Dir(string(o.Files[0].Name)))
		}
	}
	for id, at := range dirs {
		to, ok := v.a.x.links[id]
		name := Name(linkDir + "/" + id[:2] + "/" + id[2:])
		switch {
		case !ok && v.a.Manifest() != nil:
			v.defect(name, "there is no such link")
		case ok && !slices.Contains(at, to) && v.a.x.files[to] == nil:
			v.defect(name, "leads to %q, want %q", to, at[0])
		}
	}
	for id, to := range v.a.x.links {
		if _, err := buildid.Parse(id); err != nil || dirs[id] == nil && !slices.Contains(v.a.Dangling(), id) && v.a.x.files[to] == nil {
			v.defect(Name(linkDir+"/"+id[:2]+"/"+id[2:]), "leads to %q, where no object has this id", to)
		}
	}
}
