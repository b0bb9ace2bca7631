package root_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/root"
	"github.com/go-eddy/eddy/internal/version"
)

func TestVersion(t *testing.T) {
	var out, errs bytes.Buffer
	if code := root.Run([]string{"version"}, &out, &errs, nil); code != 0 || !regexp.MustCompile(`^eddy \S+ .*go1\S* \w+/\w+\n$`).MatchString(out.String()) {
		t.Errorf("exit %d: %q, %q", code, out.String(), errs.String())
	}
	said := out.String()
	out.Reset()
	if code := root.Run([]string{"--version"}, &out, &errs, nil); code != 0 || out.String() != said {
		t.Errorf("--version: exit %d, %q, want %q; %q", code, out.String(), said, errs.String())
	}
	out.Reset()
	var got version.Info
	if code := root.Run([]string{"version", "--json"}, &out, &errs, nil); code != 0 || json.Unmarshal(out.Bytes(), &got) != nil || got != version.Get() {
		t.Errorf("exit %d: %q, %q", code, out.String(), errs.String())
	}
}
