package desk

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/mail"
)

// TestMailFlags: each flag is its setting, and the password comes from a file or the environment.
func TestMailFlags(t *testing.T) {
	parse := func(args ...string) mail.Settings {
		t.Helper()
		var f mailFlags
		cmd := &cobra.Command{}
		f.register(cmd)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		s, err := f.settings()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if got := parse(); got != (mail.Settings{TLS: mail.StartTLS, PerMinute: mail.DefaultPerMinute}) || got.On() {
		t.Errorf("without flags %+v", got)
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(" se cret \r\nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := mail.Settings{Server: "smtp.example:465", TLS: mail.Implicit, Login: "desk", Password: " se cret ", From: "Shop <a@b.example>", ReplyTo: "c@d.example", PerMinute: 7}
	args := []string{"--mail-server=smtp.example:465", "--mail-tls=implicit", "--mail-login=desk", "--mail-from=Shop <a@b.example>", "--mail-reply-to=c@d.example", "--mail-rate=7"}
	if got := parse(append(args, "--mail-password-file="+file)...); got != want {
		t.Errorf("with all flags %+v", got)
	}
	t.Setenv(mailPassword, " se cret ")
	if got := parse(args...); got != want {
		t.Errorf("with the environment %+v", got)
	}
}

// TestMailBadInput: a setting that is missing or wrong is named before anything begins, and no password is an argument.
func TestMailBadInput(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("\nsecret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	on := []string{"desk", "--data", filepath.Join(dir, "data"), "--addr", "127.0.0.1:0", "--mail-server", "smtp.example:587"}
	with := func(more ...string) []string {
		return slices.Concat(on, []string{"--mail-from", "a@b.example", "--public-url", "https://desk.example"}, more)
	}
	for name, c := range map[string]struct {
		args          []string
		thing, remedy string
	}{
		"no sender":       {on, "--mail-from", "write an address"},
		"no address":      {append(on, "--mail-from", "a@b.example"), "--public-url", "links"},
		"no server":       {[]string{"desk", "--mail-from", "a@b.example"}, "--mail-server", "smtp.example:587"},
		"bad server":      {with("--mail-server", "smtp.example"), `"smtp.example"`, "host:port"},
		"bad mode":        {with("--mail-tls", "ssl"), `--mail-tls is "ssl"`, "starttls"},
		"no password":     {with("--mail-login", "desk"), `--mail-login is "desk"`, "--mail-password-file"},
		"empty password":  {with("--mail-login", "desk", "--mail-password-file", empty), empty, "first line"},
		"no such file":    {with("--mail-login", "desk", "--mail-password-file", dir+"/none"), dir + "/none", "name a file"},
		"bad rate":        {with("--mail-rate", "0"), "--mail-rate is 0", "1 to 6000"},
		"password as one": {with("--mail-password", "secret"), "--mail-password", "--mail-password-file"},
	} {
		t.Run(name, func(t *testing.T) { cmdtest.ExpectFailure(t, c.args, c.thing, c.remedy) })
	}
}
