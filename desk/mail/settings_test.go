package mail

import (
	"errors"
	"strings"
	"testing"
)

// TestSettings: each setting that makes no sense is named, with its value and what to do.
func TestSettings(t *testing.T) {
	good := Settings{Server: "smtp.example:587", From: "Shop <help@shop.example>", Login: "desk", Password: "secret"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	if err := new(Settings).Check(); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		change        func(*Settings)
		setting, want string
	}{
		"no port":             {func(s *Settings) { s.Server = "smtp.example" }, "server", `"smtp.example": write host:port`},
		"no host":             {func(s *Settings) { s.Server = ":25" }, "server", "host:port"},
		"port 0":              {func(s *Settings) { s.Server = "a:0" }, "server", "host:port"},
		"host with a line":    {func(s *Settings) { s.Server = "a\r\nb:25" }, "server", "host:port"},
		"no server":           {func(s *Settings) { s.Server = "" }, "server", "is empty"},
		"unknown mode":        {func(s *Settings) { s.TLS = "ssl" }, "tls", `"ssl": give starttls`},
		"password in clear":   {func(s *Settings) { s.TLS = NoTLS }, "tls", "in clear"},
		"no password":         {func(s *Settings) { s.Password = "" }, "password", "is empty"},
		"no login":            {func(s *Settings) { s.Login = "" }, "login", "is empty"},
		"login of two lines":  {func(s *Settings) { s.Login = "a\nb" }, "login", "one line"},
		"no sender":           {func(s *Settings) { s.From = "" }, "from", "write an address"},
		"sender's name":       {func(s *Settings) { s.From = "Shop" }, "from", `"Shop": write`},
		"sender with a line":  {func(s *Settings) { s.From = "Shop\r\nBcc: x@y.example <a@b.example>" }, "from", "write an address"},
		"encoded line":        {func(s *Settings) { s.From = "=?utf-8?q?a=0D=0ABcc:x?= <a@b.example>" }, "from", "write an address"},
		"sender without host": {func(s *Settings) { s.From = "a@" }, "from", "write an address"},
		"two senders":         {func(s *Settings) { s.From = "a@b.example, c@d.example" }, "from", "write an address"},
		"long sender":         {func(s *Settings) { s.From = strings.Repeat("x", 200) + " <a@b.example>" }, "from", "write an address"},
		"answers":             {func(s *Settings) { s.ReplyTo = "nobody" }, "reply-to", `"nobody"`},
		"rate":                {func(s *Settings) { s.PerMinute = MaxPerMinute + 1 }, "rate", "6001: give 1 to 6000"},
	} {
		s := good
		c.change(&s)
		err := s.Check()
		wrong, ok := errors.AsType[*SettingError](err)
		if !ok || wrong.Setting != c.setting || !strings.Contains(wrong.Why, c.want) {
			t.Errorf("%s: %v, want %s %q", name, err, c.setting, c.want)
		}
		if _, err := NewSMTP(s); err == nil {
			t.Errorf("%s: a sender was made", name)
		}
	}
}
