package desk

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/desk/mail"
)

// mailPassword is the variable of the environment with the password for the mail server. It is no flag, because other
// users of the machine can see command lines.
const mailPassword = "EDDY_MAIL_PASSWORD"

// mailFlags say how mails leave.
type mailFlags struct {
	server, tls, login, passwordFile, from, replyTo string
	rate                                            int
}

func (f *mailFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.server, "mail-server", "", "mail server, host:port, such as smtp.example:587; empty = no mail is sent. Needs --mail-from and --public-url")
	flags.StringVar(&f.tls, "mail-tls", string(mail.StartTLS), "TLS to the mail server: starttls (required, not only tried), implicit (from the first byte, often port 465) or none")
	flags.StringVar(&f.login, "mail-login", "", "login at the mail server; empty = none")
	flags.StringVar(&f.passwordFile, "mail-password-file", "", "file with the password for the mail server; or in the environment as "+mailPassword)
	flags.StringVar(&f.from, "mail-from", "", "sender of mails, such as \"Shop <help@shop.example>\"")
	flags.StringVar(&f.replyTo, "mail-reply-to", "", "where answers to mails go; empty = to the sender")
	flags.IntVar(&f.rate, "mail-rate", mail.DefaultPerMinute, "mails a minute")
}

// settings returns what the flags say, with the password.
func (f *mailFlags) settings() (mail.Settings, error) {
	s := mail.Settings{Server: f.server, TLS: mail.TLSMode(f.tls), Login: f.login, From: f.from, ReplyTo: f.replyTo, PerMinute: f.rate}
	s.Password = os.Getenv(mailPassword)
	if f.passwordFile != "" {
		if s.Password != "" {
			return s, fmt.Errorf("--mail-password-file and %s are both given: take one", mailPassword)
		}
		var err error
		if s.Password, err = cli.ReadPassword(f.passwordFile); err != nil {
			return s, fmt.Errorf("--mail-password-file: %w", err)
		}
	}
	if f.rate < 1 {
		return s, fmt.Errorf("--mail-rate is %d: give 1 to %d mails a minute", f.rate, mail.MaxPerMinute)
	}
	if wrong, ok := errors.AsType[*mail.SettingError](s.Check()); ok {
		if wrong.Setting == "password" {
			return s, fmt.Errorf("--mail-login is %q, but there is no password: give --mail-password-file or %s", f.login, mailPassword)
		}
		return s, fmt.Errorf("--mail-%s %s", wrong.Setting, wrong.Why)
	}
	return s, nil
}
