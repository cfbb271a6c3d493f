package capture

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/perfark/perfark/archive"
)

// WriteMetrics writes Stats as text for Prometheus, version 0.0.4 of its
// format: what is counted and how much there is, in bytes and seconds. maxBytes
// is what the directory may have; 0 is any number.
func WriteMetrics(w io.Writer, s Stats, maxBytes int64) error {
	var b strings.Builder
	metric := func(name, kind, help string, values ...any) {
		fmt.Fprintf(&b, "# HELP perfark_capture_%s %s\n# TYPE perfark_capture_%s %s\n", name, help, name, kind)
		for i := 0; i < len(values); i += 2 {
			v := values[i+1]
			if f, ok := v.(float64); ok {
				v = strconv.FormatFloat(f, 'g', -1, 64)
			}
			fmt.Fprintf(&b, "perfark_capture_%s%s %v\n", name, values[i], v)
		}
	}
	metric("windows_total", "counter", "Windows of recording, by what became of them.",
		`{result="complete"}`, s.Complete, `{result="partial"}`, s.Partial, `{result="failed"}`, s.Failed,
		`{result="skipped"}`, s.Skipped, `{result="missed"}`, s.Missed)
	metric("samples_total", "counter", "Samples in bundles.", "", s.Samples)
	metric("lost_samples_total", "counter", "Samples that the kernel lost.", "", s.Lost)
	metric("removed_bundles_total", "counter", "Bundles that were removed for their age or to have room.", "", s.Removed)
	metric("removed_objects_total", "counter", "Objects that no bundle referred to any more.", "", s.Collected)
	metric("cpu_seconds_total", "counter", "Processor time of perfark.", "", s.CPU.Seconds())
	metric("memory_bytes", "gauge", "Memory of perfark that is neither of files nor shared.", "", Memory())
	metric("strain", "gauge", "How much is saved as windows cost too much: 0 nothing, 1 and 2 samples, 3 debug information too.", "", int(s.Strain))
	metric("bundles", "gauge", "Bundles in the directory.", "", s.Bundles)
	metric("directory_bytes", "gauge", "What the directory takes on the disk.", "", s.Bytes)
	if maxBytes > 0 {
		metric("directory_limit_bytes", "gauge", "What the directory may take on the disk.", "", maxBytes)
	}
	if !s.LastTime.IsZero() {
		coverage := 1.0
		if s.Last.Frames > 0 {
			coverage = float64(s.Last.Named) / float64(s.Last.Frames)
		}
		metric("last_timestamp_seconds", "gauge", "When the last window with a bundle began.", "", float64(s.LastTime.UnixMilli())/1e3)
		metric("last_duration_seconds", "gauge", "From its beginning until its bundle was there.", "", s.Took.Seconds())
		metric("last_samples", "gauge", "Its samples.", "", s.Last.Samples)
		metric("last_missing_objects", "gauge", "Objects that are missing from it.", "", s.Last.Missing)
		metric("last_coverage_ratio", "gauge", "The part of its frames that have names.", "", coverage)
		metric("last_bundle_bytes", "gauge", "The size of its bundle.", "", s.Last.Size)
		metric("last_pool_bytes", "gauge", "What it added to the pool.", "", s.Last.Pooled)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// A Metrics has the Stats of a run for those who ask for them.
type Metrics struct {
	MaxBytes int64  // see WriteMetrics
	File     string // is replaced by the new ones with each Set; "" for none

	mu    sync.Mutex
	stats Stats
}

// Set has others see new Stats. The error is that of the file.
func (m *Metrics) Set(s Stats) error {
	m.mu.Lock()
	m.stats = s
	m.mu.Unlock()
	if m.File == "" {
		return nil
	}
	return archive.Create(context.Background(), m.File, nil, func(f *os.File) error {
		if err := f.Chmod(0o644); err != nil { // others read it
			return err
		}
		return WriteMetrics(f, s, m.MaxBytes)
	})
}

// ListenLoopback listens at ADDRESS:PORT, whose address is one of this host
// alone: 127.0.0.1, [::1] or localhost. All others are refused.
func ListenLoopback(at string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return nil, err
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return nil, fmt.Errorf("%q: not an address of this host alone, such as 127.0.0.1", host)
	}
	return net.Listen("tcp", net.JoinHostPort(host, port))
}

// Serve answers GET /metrics at l until ctx is done.
func (m *Metrics) Serve(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		m.mu.Lock()
		s := m.stats
		m.mu.Unlock()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		WriteMetrics(w, s, m.MaxBytes)
	})
	const patience = 5 * time.Second
	srv := &http.Server{
		Handler: mux, ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: patience,
		MaxHeaderBytes: 8 << 10, ErrorLog: nil,
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	err := srv.Serve(&fewListener{Listener: l, slots: make(chan struct{}, 16)})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// A fewListener has only so many connections open at a time; others wait.
type fewListener struct {
	net.Listener
	slots chan struct{}
}

// Accept waits for a connection.
func (l *fewListener) Accept() (net.Conn, error) {
	l.slots <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &fewConn{Conn: c, l: l}, nil
}

type fewConn struct {
	net.Conn
	l    *fewListener
	once sync.Once
}

// Close closes the connection, so that another one may be.
func (c *fewConn) Close() error {
	c.once.Do(func() { <-c.l.slots })
	return c.Conn.Close()
}
