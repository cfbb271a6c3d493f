package archive

import (
	"context"
	"os"
)

// Create writes the file name by calling fill. The file is there if and only
// if fill succeeded and all is on the disk; an older file of that name stays
// until then. It has no other name meanwhile where the file system can do
// that, so that nothing is left when the process is killed; made is as
// [PackOptions.Made].
func Create(ctx context.Context, name string, made func(temp string) (gone func()), fill func(*os.File) error) (err error) {
	d, err := newDraft(name)
	if err != nil {
		return noSpace(name, err)
	}
	if d.temp != "" && made != nil {
		defer made(d.temp)()
	}
	defer func() {
		if err != nil {
			d.abort()
			err = noSpace(name, err)
		}
	}()
	if err := fill(d.File); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return d.commit()
}
