package mail

import (
	"fmt"
	"strings"
	"unicode"
)

func english() map[string]string {
	return map[string]string{
		"test.subject": "Test mail of Desk",
		"test.body":    "This is the test mail that %s has asked for at %s. If you can read it, Desk can send mails.\n",
		"footer":       "This mail was sent by a program. ",
	}
}

func chinese() map[string]string {
	return map[string]string{
		"test.subject": "Desk 测试邮件",
		"test.body":    "这是 %s 于 %s 要求发送的测试邮件。如果您能读到它，说明 Desk 可以发送邮件。\n",
		"footer":       "此邮件由程序发送。",
	}
}

// text returns a text in a language, English where there is none.
func text(locale, key string, args ...any) string {
	s := english()[key]
	if strings.HasPrefix(strings.ToLower(locale), "zh") && chinese()[key] != "" {
		s = chinese()[key]
	}
	if len(args) == 0 {
		return s
	}
	return fmt.Sprintf(s, args...)
}

// plain returns what somebody wrote without the characters that a mail must not have.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, strings.ToValidUTF8(strings.ReplaceAll(s, "\r\n", "\n"), "�"))
}

// line returns what somebody wrote as one line of at most limit characters.
func line(s string, limit int) string {
	r := []rune(strings.Join(strings.Fields(plain(s)), " "))
	if len(r) > limit {
		r = append(r[:limit-1], '…')
	}
	return string(r)
}
