//go:build !linux

package archive

import "errors"

func openNameless(string) (fd int, err error) { return -1, errors.ErrUnsupported }
