package objects_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/files"
	"github.com/go-eddy/eddy/desk/files/objects"
	"github.com/go-eddy/eddy/desk/files/objects/s3test"
	"github.com/go-eddy/eddy/desk/files/placetest"
)

func setKeys(t *testing.T) {
	for name, value := range s3test.Keys() {
		t.Setenv(name, value)
	}
}

// TestBucket runs the tests of every place on a real object store, side by side in one bucket.
func TestBucket(t *testing.T) {
	setKeys(t)
	server := s3test.Start(t)
	address := server.Bucket(t, "desk")
	placetest.Run(t, placetest.Fixture{
		Open: func(t *testing.T, name string) files.Place {
			b, err := objects.Open(t.Context(), objects.Options{
				URL: strings.Replace(address, "?", "/of/"+name+"?", 1), MaxSize: 40 << 20, Copies: filepath.Join(t.TempDir(), "copies"),
			})
			if err != nil {
				t.Fatal(err)
			}
			return b
		},
		Left: func(t *testing.T, name string) (keys []string) {
			prefix := "of/" + name + "/"
			for _, key := range server.Objects(t, "desk") {
				if key, ok := strings.CutPrefix(key, prefix); ok {
					keys = append(keys, key)
				}
			}
			page, err := server.Client(t).ListMultipartUploads(context.Background(), "desk", prefix, "", "", "", 1000)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range page.Uploads {
				keys = append(keys, "unfinished "+u.Key)
			}
			return keys
		},
	})
}
