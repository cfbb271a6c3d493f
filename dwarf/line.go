package dwarf

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
)

// A lineTable is the line program of a unit. Its rows are not kept: a point
// every few rows says where to run the program again.
type lineTable struct {
	d        *Data
	off, end uint64 // of the program, in .debug_line
	layout
	minInst  uint64
	maxOps   uint64
	lineBase int64
	rng      int64 // line_range
	opBase   uint8
	opLens   []uint8

	compDir string
	dirs    []value
	files   []lineFile

	seqs   []sequence
	points []point

	mu        sync.Mutex
	paths     map[uint32]string
	pathBytes int
}

// maxPaths bounds the paths kept, in bytes.
const maxPaths = 4 << 20

// A lineFile is an entry of the file table.
type lineFile struct {
	name value
	dir  uint64
	sum  *[16]byte // MD5, if Options.Sum asks for it and it is there
}

// A sequence is code whose rows are in order of address.
type sequence struct {
	lo, hi uint64
	first  int32 // of its points
	n      int32
	stop   uint32 // where its rows end, in the program
}

// A point is a row, and where the program goes on behind it.
type point struct {
	addr  uint64
	pos   uint32 // in the program
	file  uint32
	line  uint32
	col   uint32
	discr uint32
	op    uint8 // operation within an instruction of several
}

// pointEvery is how many rows stand between two points.
const pointEvery = 32

// maxProgram bounds a line table, in bytes.
const maxProgram = 512 << 20

// maxFiles bounds the file table and the table of directories.
const maxFiles = 1 << 17

// lineTableOf returns the line table of a unit, nil if it has none.
func (u *unit) lineTableOf() *lineTable {
	if t := u.lines.Load(); t != nil {
		return t
	}
	u.lineMu.Lock()
	defer u.lineMu.Unlock()
	if t := u.lines.Load(); t != nil {
		return t
	}
	if err := u.root(); err != nil || !u.hasLine || u.badLine {
		return nil
	}
	t, err := u.readLines()
	if err != nil {
		u.badLine = true
		u.d.warn("%s: program at %#x: %v", u.d.secs[secLine].name, u.line, err)
		return nil
	}
	u.lines.Store(t)
	u.touch()
	u.main().d.cache.add(u, int64(cap(t.seqs)*32+cap(t.points)*32+cap(t.files)*64+cap(t.dirs)*40+300))
	return t
}

// readLines reads a line table: the header, then the program.
func (u *unit) readLines() (*lineTable, error) {
	sec := &u.d.secs[secLine]
	size, err := sec.size()
	if err != nil {
		return nil, err
	}
	t := &lineTable{d: u.d, compDir: u.compDir, layout: layout{addrSize: u.addrSize}}
	var n, head uint64
	err = sec.parse(u.d.opt.Big, u.line, u.line+12, func(r *reader) {
		n, t.is64 = r.length()
		head = uint64(r.p)
	})
	if err != nil && head == 0 {
		return nil, err
	}
	if n > uint64(size)-u.line-head {
		return nil, fmt.Errorf("length %#x, but %#x bytes follow", n, uint64(size)-u.line-head)
	}
	if n > maxProgram {
		return nil, fmt.Errorf("length %#x, at most %#x are read", n, maxProgram)
	}
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	b, err := sec.window(u.line+head, n, buf)
	if err != nil {
		return nil, err
	}
	if !u.lineShared {
		u.lineShared = true
		if err := u.d.share(secLine, len(b)); err != nil {
			return nil, err
		}
	}
	r := reader{b: b, big: u.d.opt.Big}
	prog := t.header(&r)
	if r.bad {
		return nil, r.err("header", u.line)
	}
	t.off, t.end = u.line+head+uint64(prog), u.line+head+n
	t.run(b[prog:])
	return t, nil
}

// header reads the header of a line table and returns where the program
// begins.
func (t *lineTable) header(r *reader) int {
	t.version = int(r.u16())
	if t.version < 2 || t.version > 5 {
		r.fail("version %d, want 2 to 5", t.version)
		return 0
	}
	if t.version >= 5 {
		t.addrSize = int(r.u8())
		r.u8() // segment_selector_size
	}
	n := r.offset(t.is64)
	if n > uint64(len(r.b)-r.p) {
		r.fail("header_length %#x, but %#x bytes follow", n, len(r.b)-r.p)
		return 0
	}
	prog := r.p + int(n)
	t.minInst, t.maxOps = uint64(r.u8()), 1
	if t.version >= 4 {
		t.maxOps = max(uint64(r.u8()), 1)
	}
	r.u8() // default_is_stmt
	t.lineBase = int64(int8(r.u8()))
	t.rng = int64(r.u8())
	t.opBase = r.u8()
	if t.opBase > 0 {
		t.opLens = slices.Clone(r.bytes(uint64(t.opBase) - 1))
	}
	if t.version >= 5 {
		for _, f := range t.table(r) {
			t.dirs = append(t.dirs, f.name)
		}
		t.files = t.table(r)
		return prog
	}
	for !r.bad && r.p < prog {
		s := r.cstr()
		if len(s) == 0 {
			break
		}
		t.dirs = append(t.dirs, value{form: formString, b: clip(s)})
	}
	for !r.bad && r.p < prog {
		s := r.cstr()
		if len(s) == 0 {
			break
		}
		t.addFile(r, s)
	}
	return prog
}

// clip returns a copy of a string that is not longer than strings are taken.
func clip(s []byte) []byte { return slices.Clone(s[:min(len(s), maxName)]) }

// addFile reads what stands behind the name in a file entry of versions 2 to 4.
func (t *lineTable) addFile(r *reader, name []byte) {
	f := lineFile{name: value{form: formString, b: clip(name)}}
	f.dir = r.uleb()
	r.uleb() // time
	r.uleb() // length
	if !r.bad && len(t.files) < maxFiles {
		t.files = append(t.files, f)
	}
}

// table reads a table of files or directories of version 5.
func (t *lineTable) table(r *reader) []lineFile {
	const contentPath, contentDirectory, contentMD5 = 1, 2, 5
	type format struct{ content, form uint64 }
	formats := make([]format, 0, 8)
	for n := int(r.u8()); n > 0 && !r.bad; n-- {
		formats = append(formats, format{r.uleb(), r.uleb()})
	}
	n := r.uleb()
	// An entry has a byte at least: a count without bytes is a lie.
	if n > uint64(len(r.b)-r.p) || n > maxFiles || n > 0 && len(formats) == 0 {
		r.fail("count of %d files or directories, but %d bytes follow", n, len(r.b)-r.p)
		return nil
	}
	var files []lineFile
	for ; n > 0 && !r.bad; n-- {
		var f lineFile
		before := r.p
		for _, x := range formats {
			at := r.p
			val := t.read(r, uint16(min(x.form, 0xffff)))
			switch x.content {
			case contentPath:
				if val.b != nil {
					val.b = clip(val.b)
				}
				f.name = val
			case contentDirectory:
				f.dir = val.u
			case contentMD5:
				if t.d.opt.Sum != nil && x.form == formData16 && !r.bad {
					f.sum = (*[16]byte)(slices.Clone(r.b[at:r.p]))
				}
			}
		}
		if r.p == before {
			r.fail("file or directory of no bytes")
			return nil
		}
		files = append(files, f)
	}
	return files
}

// row is the state of the program.
type row struct {
	addr  uint64
	op    uint64
	file  uint64
	line  int64
	col   uint64
	discr uint64
}

// A machine runs a line program.
type machine struct {
	t   *lineTable
	r   reader
	row row
	end bool // the row ends a sequence
	def func(r *reader, name []byte)
}

func (m *machine) reset() { m.row = row{file: 1, line: 1} }

// advance moves the address by operations.
func (m *machine) advance(n uint64) {
	t := m.t
	if t.maxOps == 1 {
		m.row.addr += n * t.minInst
		return
	}
	op := m.row.op + n
	m.row.addr += t.minInst * (op / t.maxOps)
	m.row.op = op % t.maxOps
}

// next runs the program up to the next row; false at its end. The row must be
// taken before next is called again.
// Source: DWARF 5, section 6.2.5.
func (m *machine) next() bool {
	t, r := m.t, &m.r
	for r.p < len(r.b) {
		op := r.b[r.p]
		r.p++
		switch {
		case op >= t.opBase:
			x := int64(op - t.opBase)
			if t.rng != 0 {
				m.advance(uint64(x / t.rng))
				m.row.line += t.lineBase + x%t.rng
			}
			return true
		case op == 0:
			n := r.uleb()
			b := r.bytes(n)
			if len(b) == 0 {
				continue
			}
			e := reader{b: b[1:], big: r.big}
			switch b[0] {
			case 1: // DW_LNE_end_sequence
				m.end = true
				return true
			case 2: // DW_LNE_set_address
				switch len(e.b) {
				case 1, 2, 4, 8:
					m.row.addr, m.row.op = e.uint(len(e.b)), 0
				}
			case 3: // DW_LNE_define_file
				if m.def != nil {
					x := e
					m.def(&x, x.cstr())
				}
			case 4: // DW_LNE_set_discriminator
				m.row.discr = e.uleb()
			}
		case op == 1: // DW_LNS_copy
			return true
		case op == 2: // DW_LNS_advance_pc
			m.advance(r.uleb())
		case op == 3: // DW_LNS_advance_line
			m.row.line += r.sleb()
		case op == 4: // DW_LNS_set_file
			m.row.file = r.uleb()
		case op == 5: // DW_LNS_set_column
			m.row.col = r.uleb()
		case op == 6, op == 7, op == 10, op == 11: // is_stmt, basic_block, prologue, epilogue
		case op == 8: // DW_LNS_const_add_pc
			if t.rng != 0 {
				m.advance(uint64(int64(255-t.opBase) / t.rng))
			}
		case op == 9: // DW_LNS_fixed_advance_pc
			m.row.addr += uint64(r.u16())
			m.row.op = 0
		default:
			n := uint8(1)
			if int(op) <= len(t.opLens) {
				n = t.opLens[op-1]
			}
			for ; n > 0; n-- {
				r.uleb()
			}
		}
	}
	return false
}

// after makes the machine ready for what follows a row.
func (m *machine) after() {
	m.row.discr = 0
	if m.end {
		m.end = false
		m.reset()
	}
}

// run runs the whole program once and notes the sequences and points.
func (t *lineTable) run(prog []byte) {
	m := machine{t: t, r: reader{b: prog, big: t.d.opt.Big}}
	m.def = func(r *reader, name []byte) {
		if t.version < 5 {
			t.addFile(r, name)
		}
	}
	m.reset()
	mask := ^uint64(0)
	if t.addrSize == 4 {
		mask = 1<<32 - 1
	}
	var (
		seq  sequence
		in   bool
		rows int
		last uint64
	)
	finish := func(hi uint64, stop int) {
		seq.n = int32(len(t.points)) - seq.first
		if in && hi > seq.lo && seq.lo >= t.d.opt.MinAddr && len(t.points) < 1<<30 && len(t.seqs) < len(prog)/12+4096 {
			seq.hi, seq.stop = hi, uint32(stop)
			t.seqs = append(t.seqs, seq)
		} else {
			t.points = t.points[:seq.first]
		}
		in = false
	}
	for start := 0; m.next(); start = m.r.p {
		addr := m.row.addr & mask
		if in && addr < last {
			// Against the rules: what goes back begins anew.
			finish(last, start)
		}
		if m.end {
			finish(addr, start)
			m.after()
			continue
		}
		if !in {
			seq, in, rows = sequence{lo: addr, first: int32(len(t.points))}, true, 0
		}
		if rows%pointEvery == 0 {
			t.points = append(t.points, m.point(addr))
		}
		rows++
		last = addr
		m.after()
	}
	if in {
		t.points = t.points[:seq.first]
	}
	slices.SortStableFunc(t.seqs, func(a, b sequence) int { return cmp.Compare(a.hi, b.hi) })
	t.seqs, t.points = slices.Clip(t.seqs), slices.Clip(t.points)
}

// point returns the row, and where the program goes on.
func (m *machine) point(addr uint64) point {
	return point{addr: addr, pos: uint32(m.r.p), file: clamp32(m.row.file), line: clamp32(uint64(m.row.line)),
		col: clamp32(m.row.col), discr: clamp32(m.row.discr), op: uint8(m.row.op)}
}

// maxOverlap is how many sequences are looked at that claim one address.
const maxOverlap = 64

// lookup returns the last row that is not behind addr.
func (t *lineTable) lookup(addr uint64) (point, bool) {
	i, _ := slices.BinarySearchFunc(t.seqs, addr, func(s sequence, a uint64) int {
		if s.hi <= a {
			return -1
		}
		return 1
	})
	for n := 0; i < len(t.seqs) && t.seqs[i].lo > addr; i++ {
		if n++; n == maxOverlap {
			return point{}, false
		}
	}
	if i == len(t.seqs) {
		return point{}, false
	}
	s := &t.seqs[i]
	pts := t.points[s.first : s.first+s.n]
	k, _ := slices.BinarySearchFunc(pts, addr, func(p point, a uint64) int {
		if p.addr <= a {
			return -1
		}
		return 1
	})
	best := pts[max(k-1, 0)]
	stop := s.stop
	if k < len(pts) {
		stop = pts[k].pos
	}
	buf := buffers.Get().(*[]byte)
	defer putBuffer(buf)
	prog, err := t.d.secs[secLine].window(t.off+uint64(best.pos), uint64(stop-best.pos), buf)
	if err != nil {
		return point{}, false
	}
	mask := ^uint64(0)
	if t.addrSize == 4 {
		mask = 1<<32 - 1
	}
	m := machine{t: t, r: reader{b: prog, big: t.d.opt.Big}}
	m.row = row{addr: best.addr, op: uint64(best.op), file: uint64(best.file), line: int64(best.line), col: uint64(best.col)}
	for m.next() && !m.end {
		a := m.row.addr & mask
		if a > addr {
			break
		}
		best = m.point(a)
		m.after()
	}
	return best, true
}

// path returns the name of a file, with its directory and that of the
// compilation: as the compiler found it.
func (t *lineTable) path(file uint32) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.paths[file]; ok {
		return p
	}
	p := t.makePath(file)
	i := uint64(file)
	if t.version >= 5 && i < uint64(len(t.files)) && t.files[i].sum != nil {
		t.d.opt.Sum(p, *t.files[i].sum)
	}
	if t.paths == nil || t.pathBytes > maxPaths {
		t.paths, t.pathBytes = map[uint32]string{}, 0
	}
	t.paths[file] = p
	t.pathBytes += len(p) + 32
	return p
}

func (t *lineTable) makePath(file uint32) string {
	i := uint64(file)
	if t.version < 5 {
		i--
	}
	if i >= uint64(len(t.files)) {
		return ""
	}
	f := t.files[i]
	name := t.str(f.name)
	if name == "" || absolute(name) {
		return name
	}
	dir := f.dir
	if t.version < 5 {
		dir--
	}
	path := ""
	if dir < uint64(len(t.dirs)) {
		path = t.str(t.dirs[dir])
	}
	if (t.version < 5 || f.dir != 0) && !absolute(path) {
		path = join(t.compDir, path)
	}
	return join(path, name)
}

// str returns a string of the tables.
func (t *lineTable) str(v value) string {
	s, _ := (&unit{d: t.d, layout: t.layout}).str(v)
	return s
}

// absolute reports whether a path needs no directory in front, on Unix or
// Windows, as programs for one are built on the other.
func absolute(p string) bool {
	switch {
	case p == "":
		return false
	case p[0] == '/' || p[0] == '\\' && len(p) > 1 && p[1] == '\\':
		return true
	}
	return len(p) > 2 && p[1] == ':' && (p[2] == '\\' || p[2] == '/')
}

// join puts a slash between two paths that are not empty.
func join(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	case a[len(a)-1] == '/':
		return a + b
	}
	return a + "/" + b
}
