package mail

import (
	"fmt"
	"strings"
	"unicode"
)

func english() map[string]string {
	return map[string]string{
		"test.subject":       "Test mail of Desk",
		"test.body":          "This is the test mail that %s has asked for at %s. If you can read it, Desk can send mails.\n",
		"transcript.subject": "Your chat with %s",
		"transcript.body":    "This is your chat with %s of %s. Times are UTC.\n\n",
		"answers.subject":    "Answer from %s",
		"answers.body":       "%s has answered your message. Times are UTC.\n\n",
		"answers.link":       "To write back, open the chat in the browser in which you left your message:\n%s\n",
		"cut":                "(Earlier messages are left out.)\n\n",
		"file":               "[file: %s]",
		"system":             "Desk",
		"reset.subject":      "New password for Desk",
		"reset.body": "Hello %s,\n\nsomebody has asked for a new password for the account %s of Desk. If that was you, open this link and choose one:\n\n%s\n\n" +
			"The link works once, within %d minutes. If it was not you, you need not do anything: your password stays as it is.\n",
	}
}

func chinese() map[string]string {
	return map[string]string{
		"test.subject":       "Desk 测试邮件",
		"test.body":          "这是 %s 于 %s 要求发送的测试邮件。如果您能读到它，说明 Desk 可以发送邮件。\n",
		"transcript.subject": "您与 %s 的对话",
		"transcript.body":    "这是您与 %s 于 %s 的对话记录，时间为 UTC。\n\n",
		"answers.subject":    "来自 %s 的回复",
		"answers.body":       "%s 已回复您的留言，时间为 UTC。\n\n",
		"answers.link":       "如需继续对话，请在留言时使用的浏览器中打开：\n%s\n",
		"cut":                "（更早的消息已省略。）\n\n",
		"file":               "[文件：%s]",
		"system":             "Desk",
		"reset.subject":      "Desk 新密码",
		"reset.body":         "%s，您好：\n\n有人为 Desk 账号 %s 申请了新密码。如果是您本人，请打开以下链接设置：\n\n%s\n\n链接只能使用一次，%d 分钟内有效。如果不是您本人，无需任何操作，密码保持不变。\n",
	}
}

// maxName is how many characters of a name a mail shows.
const maxName = 100

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
