//go:build ignore

// fetch makes iced.go: it downloads the release of iced-x86 that is named
// here, compares its checksum, and translates its WebAssembly to Go. Neither
// is kept in the repository.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	npm        = "npmjs.org"
	release    = "https://registry." + npm + "/iced-x86/-/iced-x86-1.21.0.tgz"
	checksum   = "88abc8fa5a1aeb0fc0e13b43689410e5e12474cba0392d38b1928636ba56e7e6"
	member     = "package/iced_x86_bg.wasm"
	translator = "github.com/ncruces/wasm2go@v0.4.22"
	limit      = 16 << 20 // bytes of the release, and of what is in it
)

func main() {
	if err := run("iced.go"); err != nil {
		fmt.Fprintln(os.Stderr, "iced: "+err.Error())
		os.Exit(1)
	}
}

func run(name string) error {
	module, err := download()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "iced")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	wasm, out := filepath.Join(dir, "iced.wasm"), filepath.Join(dir, "iced.go")
	if err := os.WriteFile(wasm, module, 0o600); err != nil {
		return err
	}
	cmd := exec.Command("go", "run", translator, "-tags", "iced", "-pkg", "iced", "-o", out, wasm)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", translator, err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// download returns the module out of the release.
func download() ([]byte, error) {
	client := http.Client{Timeout: 2 * time.Minute}
	resp, err := client.Get(release)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", release, resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", release, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != checksum {
		return nil, fmt.Errorf("%s: has the SHA-256 %x, not %s", release, sum, checksum)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for t := tar.NewReader(unzipped); ; {
		h, err := t.Next()
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", release, member, err)
		}
		if h.Name == member {
			return io.ReadAll(io.LimitReader(t, limit))
		}
	}
}
