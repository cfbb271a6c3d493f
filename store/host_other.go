//go:build !linux

package store

import (
	"context"
	"errors"

	"github.com/perfark/perfark/buildid"
)

var errNoLinux = errors.New("this host does not run Linux")

// KernelID returns the Build ID of the running kernel: there is none.
func KernelID(string) (buildid.ID, error) { return "", errNoLinux }

// ModuleID returns the Build ID of a loaded module: there is none.
func ModuleID(string, string) (buildid.ID, error) { return "", errNoLinux }

// KernelMaps returns where the kernel's code is: nowhere.
func KernelMaps(string, string) ([]KernelMap, error) { return nil, errNoLinux }

// RunningVDSO returns the Build ID of the vDSO: there is none.
func RunningVDSO() (buildid.ID, error) { return "", errNoLinux }

func newHost(HostOptions) Source { return noHost{} }

// A noHost is a host that nothing was recorded on.
type noHost struct{}

func (noHost) Get(_ context.Context, k Key) (*File, error) {
	return nil, &notFoundError{"this host", k}
}
