package desk

import (
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/internal/testkit"
)

// ranWell runs a command line that has to succeed and returns what it prints.
func ranWell(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := cmdtest.Run(t, args...)
	if code != 0 {
		t.Fatalf("eddy %s: exit code %d, %q", strings.Join(args, " "), code, errs)
	}
	return out
}

var passwordPattern = regexp.MustCompile(`password  (\S+)\n`)

// TestDeskUser manages accounts while the desk runs: those that are added can log in at once.
func TestDeskUser(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	user := func(args ...string) []string { return append([]string{"desk", "user", "--data", data}, args...) }
	cmdtest.ExpectFailure(t, user("list"), data, "--data")

	first := passwordPattern.FindStringSubmatch(ranWell(t, user("add", "boss", "--role", "admin", "--capacity", "4")...))
	if first == nil {
		t.Fatal("no password is printed")
	}
	p := cmdtest.StartServer(t, "desk", "--addr", "127.0.0.1:0", "--data", data)
	p.WaitOutput(p.Out, regexp.MustCompile(`/console\n`))
	if strings.Contains(p.Out.String(), "password") {
		t.Errorf("a desk with accounts makes another one: %q", p.Out)
	}
	greet(t, p.Addr, "boss", first[1])

	lin := passwordPattern.FindStringSubmatch(ranWell(t, user("add", "lin", "--name", "Lin 林")...))
	greet(t, p.Addr, "lin", lin[1])
	again := passwordPattern.FindStringSubmatch(ranWell(t, user("password", "LIN")...)) // logins have no case
	if again[1] == lin[1] {
		t.Error("the new password is the old one")
	}
	greet(t, p.Addr, "lin", again[1])
	if out := ranWell(t, user("set", "lin", "--capacity", "8")...); !strings.Contains(out, `"Lin 林", role agent, capacity 8`) {
		t.Errorf("set: %q", out)
	}
	if out := ranWell(t, user("set", "lin", "--chats=false")...); !strings.Contains(out, "capacity 8, takes no chats") {
		t.Errorf("set: %q", out)
	}
	if out := ranWell(t, user("set", "lin", "--role", "admin")...); !strings.Contains(out, "role admin, capacity 8, takes no chats") {
		t.Errorf("set: %q", out)
	}
	if out := ranWell(t, user("set", "lin", "--role", "agent", "--chats")...); strings.Contains(out, "no chats") {
		t.Errorf("set: %q", out)
	}
	if out := ranWell(t, user("set", "lin", "--skills", " Returns,VAT  forms, returns", "--languages", "zh-CN, en")...); !strings.Contains(out, "skills: returns, vat forms, languages: en, zh\n") {
		t.Errorf("set: %q", out)
	}
	if out := ranWell(t, user("list")...); !regexp.MustCompile(`SKILLS +LANGUAGES\n.*\n?.*lin +Lin 林 .* returns, vat forms +en, zh\n`).MatchString(out) {
		t.Errorf("list: %q", out)
	}
	if out := ranWell(t, user("set", "lin", "--name", "Lin 林")...); !strings.Contains(out, "skills: returns, vat forms") { // stays
		t.Errorf("set: %q", out)
	}
	if out := ranWell(t, user("set", "lin", "--skills", "", "--languages", "")...); strings.Contains(out, "skills") || strings.Contains(out, "languages") {
		t.Errorf("set: %q", out)
	}
	ranWell(t, user("disable", "lin")...)
	web := desktest.NewWeb(func() string { return "http://" + p.Addr })
	defer web.CloseIdle()
	var refused *proto.Error
	err := web.Post(testkit.Context(t), "/api/v1/agent/login", map[string]string{"login": "lin", "password": again[1]}, nil)
	if !errors.As(err, &refused) || refused.Code != proto.CodeUnauthorized {
		t.Errorf("a disabled account logs in: %v", err)
	}
	if out := ranWell(t, user("list")...); !regexp.MustCompile(`boss +boss +admin +4 +no +enabled +- +-\nlin +Lin 林 +agent +8 +yes +disabled +- +-\n`).MatchString(out) {
		t.Errorf("list: %q", out)
	}
	ranWell(t, user("enable", "lin")...)
	greet(t, p.Addr, "lin", again[1])

	for _, c := range []struct {
		args          []string
		thing, remedy string
	}{
		{[]string{"add", "Lin"}, `"Lin"`, "user set"},
		{[]string{"add"}, "desk user add", "one login"},
		{[]string{"add", "two", "words"}, "desk user add", "one login"},
		{[]string{"add", "a b"}, `"a b"`, "login"},
		{[]string{"add", "x", "--role", "king"}, `"x"`, "role"},
		{[]string{"add", "x", "--capacity", "-1"}, `"x"`, "capacity"},
		{[]string{"add", "x", "--skills", strings.Repeat("y", 41)}, `"x"`, "40"},
		{[]string{"set", "lin", "--skills", "a;b"}, `"lin"`, "skills"},
		{[]string{"set", "lin", "--skills", strings.Join(strings.Split("abcdefghijklmnopqrstuvwxyz01234", ""), ",")}, `"lin"`, "30"},
		{[]string{"set", "lin", "--languages", "english"}, `"lin"`, "languages"},
		{[]string{"password", "nobody"}, `"nobody"`, "user list"},
		{[]string{"set", "nobody", "--name", "x"}, `"nobody"`, "user list"},
		{[]string{"disable", "boss"}, `"boss"`, "--role admin"},
		{[]string{"set", "boss", "--role", "agent"}, `"boss"`, "--role admin"},
		{nil, "desk user", "add, list"},
	} {
		cmdtest.ExpectFailure(t, user(c.args...), c.thing, c.remedy)
	}
	p.Stop()
}

func TestDeskUserPasswordFromInput(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	for _, c := range []struct {
		input string
		ok    bool
	}{{"too short\n", false}, {"correct horse battery\r\nsecond line", true}, {"", false}, {strings.Repeat("x", 257), false}} {
		cmd := cmdtest.Program("desk", "user", "add", "lin", "--password-stdin", "--data", data)
		cmd.Stdin = strings.NewReader(c.input)
		out, err := cmd.CombinedOutput()
		if (err == nil) != c.ok || strings.Contains(string(out), "password  ") || strings.Contains(string(out), "horse") {
			t.Errorf("%.20q: %v, %q", c.input, err, out)
		}
	}
	p := cmdtest.StartServer(t, "desk", "--addr", "127.0.0.1:0", "--data", data)
	p.WaitOutput(p.Out, regexp.MustCompile(`/console\n`))
	greet(t, p.Addr, "lin", "correct horse battery")
	p.Stop()
}
