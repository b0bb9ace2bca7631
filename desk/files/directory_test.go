package files_test

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/go-eddy/eddy/desk/files"
	"github.com/go-eddy/eddy/desk/files/placetest"
)

func TestDirectory(t *testing.T) {
	dir := t.TempDir()
	placetest.Run(t, placetest.Fixture{
		Open: func(t *testing.T, name string) files.Place {
			d, err := files.OpenDirectory(filepath.Join(dir, name), true)
			if err != nil {
				t.Fatal(err)
			}
			return d
		},
		Left: func(t *testing.T, name string) (keys []string) {
			root := filepath.Join(dir, name)
			err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
				if err == nil && e.Type().IsRegular() {
					key, _ := filepath.Rel(root, path)
					keys = append(keys, filepath.ToSlash(key))
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			return keys
		},
	})
}
