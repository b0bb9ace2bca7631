package root_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/root"
)

// TestCompletion: the help tells of the command, it prints a script, and it has the manners of the others.
func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		line, out, errs string
		code            int
	}{
		{"--help", "\n  completion  ", "", 0},
		{"completion bash", "__start_eddy", "", 0},
		{"completion", "", `"eddy completion" needs one of bash, fish, powershell and zsh`, 1},
		{"completion bas", "", "did you mean bash?", 1},
	} {
		var out, errs bytes.Buffer
		code := root.Run(strings.Fields(c.line), &out, &errs, nil)
		if code != c.code || !strings.Contains(out.String(), c.out) || !strings.Contains(errs.String(), c.errs) || (out.Len() == 0) != (code != 0) || strings.Count(errs.String(), "\n") != code {
			t.Errorf("eddy %s: exit %d, %.300q, %q", c.line, code, out.String(), errs.String())
		}
	}
}
