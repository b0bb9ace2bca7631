package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

func TestParse(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		t.Setenv(name, "")
	}
	for text, want := range map[string]string{
		"s3://desk?region=eu-central-1":                               "s3://desk at https://s3.amazonaws.com, eu-central-1, style 0",
		"s3://desk/a/b/?region=x":                                     "s3://desk/a/b at https://s3.amazonaws.com, x, style 0",
		"s3://desk/a?endpoint=http://127.0.0.1:9000":                  "s3://desk/a at http://127.0.0.1:9000, us-east-1, style 0",
		"s3://desk?endpoint=https://minio.example/&path-style=true":   "s3://desk at https://minio.example, us-east-1, style 2",
		"s3://desk?endpoint=https%3A%2F%2Fx%3A1&path-style=false":     "s3://desk at https://x:1, us-east-1, style 1",
		"s3://desk/with%20space?endpoint=http://[::1]:9000&region=r1": "s3://desk/with space at http://[::1]:9000, r1, style 0",
	} {
		a, err := Parse(text)
		if got := fmt.Sprintf("%s, %s, style %d", a, a.Region, a.PathStyle); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
		if a.Prefix != "" && !strings.HasSuffix(a.Prefix, "/") {
			t.Errorf("%s: prefix %q", text, a.Prefix)
		}
	}
	for text, want := range map[string]string{
		"s3:///x":                                  "no bucket",
		"s3://":                                    "no bucket",
		"gs://desk":                                "no address of a bucket",
		"S3://":                                    "no bucket",
		"://desk":                                  "no address of a bucket",
		"s3://desk":                                "no region",
		"s3://Desk?region=x":                       `"Desk"`,
		"s3://desk:9000?region=x":                  `"desk:9000"`,
		"s3://key:swordfish@desk?region=x":         "AWS_SECRET_ACCESS_KEY",
		"s3://desk?secret=swordfish":               "endpoint, region, path-style",
		"s3://desk?region=a&region=b":              "once each",
		"s3://desk?region=%zz":                     "cannot be read",
		"s3://desk#x":                              "cannot be read",
		"s3://desk?path-style=yes":                 "true or false",
		"s3://desk?endpoint=minio:9000":            "endpoint=https://HOST:PORT",
		"s3://desk?endpoint=https://x/y":           "endpoint=https://HOST:PORT",
		"s3://desk?endpoint=https://k:swordfish@x": "endpoint=https://HOST:PORT",
		"s3://desk/a//b?region=x":                  "single slashes",
		"s3://desk/../b?region=x":                  "single slashes",
		"s3://desk/" + strings.Repeat("a", 600) + "?region=x": "512 bytes",
	} {
		if a, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "swordfish") || len(err.Error()) > 300 {
			t.Errorf("%s: %v, %v", text, a, err)
		}
	}
	t.Setenv("AWS_DEFAULT_REGION", "eu-1")
	t.Setenv("AWS_ENDPOINT_URL", "http://one:1")
	if a, err := Parse("s3://desk"); err != nil || a.Region != "eu-1" || a.Endpoint.Host != "one:1" || a.PathStyle != minio.BucketLookupAuto {
		t.Errorf("%+v, %v", a, err)
	}
	t.Setenv("AWS_REGION", "eu-2")
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://two:2")
	if a, err := Parse("s3://desk"); err != nil || a.Region != "eu-2" || a.Endpoint.Host != "two:2" {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := Parse("s3://desk?region=eu-3&endpoint=http://three:3"); err != nil || a.Region != "eu-3" || a.Endpoint.Host != "three:3" {
		t.Errorf("%+v, %v", a, err)
	}
	for text, want := range map[string]bool{"s3://desk": true, "gs://desk": true, "/mnt/files": false, "files": false, `C:\files`: false, "": false} {
		if IsURL(text) != want {
			t.Errorf("%q is a URL: %v", text, !want)
		}
	}
}

// TestKeys: a key comes from the environment, from the file that Amazon's tools share, or from the role of a container.
func TestKeys(t *testing.T) {
	f := newFake(t)
	used := make(chan string, 100)
	f.failing(func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		_, after, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
		key, _, _ := strings.Cut(after, "/")
		used <- key
		return false
	})
	open := func(want string) {
		t.Helper()
		b, err := Open(context.Background(), f.options())
		if err != nil {
			t.Fatal(err)
		}
		b.Close()
		for len(used) > 0 {
			if key := <-used; key != want {
				t.Errorf("key %q, want %q", key, want)
			}
		}
	}
	open("key")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	shared := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(shared, []byte("[default]\naws_access_key_id = filekey\naws_secret_access_key = s\n[other]\naws_access_key_id = otherkey\naws_secret_access_key = s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CONFIG_FILE", os.DevNull)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", shared)
	open("filekey")
	t.Setenv("AWS_PROFILE", "other")
	open("otherkey")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", os.DevNull)
	if _, err := Open(context.Background(), f.options()); err == nil || !strings.Contains(err.Error(), "there is no key for s3://desk/of at "+f.at) {
		t.Error(err)
	}
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"AccessKeyId": "rolekey", "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00:00Z"})
	}))
	defer role.Close()
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.URL)
	open("rolekey")
}

func TestOpenRefuses(t *testing.T) {
	f := newFake(t)
	o := f.options()
	o.MaxSize = mostParts*mostPart + 1
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "at most 2684354560000") {
		t.Error(err)
	}
	o.MaxSize = mostParts * 9 << 20
	b, err := Open(t.Context(), o)
	if err != nil || b.partBytes != 9<<20 {
		t.Errorf("%v", err)
	}
	b.Close()
	for kind, code := range map[string]string{"put": "AccessDenied", "delete": "AccessDenied"} {
		f.failing(only(kind, answering(http.StatusForbidden, code)))
		if _, err := Open(t.Context(), f.options()); err == nil || !strings.Contains(err.Error(), "DeleteObject") || !strings.Contains(err.Error(), f.at) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
