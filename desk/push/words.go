package push

import (
	"fmt"
	"strings"
)

// words is what a browser is told, as JSON. The service worker of the console shows title and body.
type words struct {
	Title  string `json:"title"`
	Body   string `json:"body,omitempty"`
	Locale string `json:"lang"`
	Conv   string `json:"c,omitempty"` // the chat that it is about, if it is one
}

// texts are the lines of a language: of one and of more.
type texts struct{ offer, offers, given, gives, message, messages, chats string }

func textsOf(locale string) texts {
	if strings.HasPrefix(locale, "zh") {
		return texts{
			offer: "同事请您接手一个对话", offers: "同事请您接手 %s 个对话", given: "有 1 个对话分配给了您", gives: "有 %s 个对话分配给了您",
			message: "1 条新消息", messages: "%s 条新消息", chats: "%s 条新消息，来自 %s 个对话",
		}
	}
	return texts{
		offer: "A colleague offers you a chat", offers: "Colleagues offer you %s chats", given: "A chat is yours now", gives: "%s chats are yours now",
		message: "1 new message", messages: "%s new messages", chats: "%s new messages in %s chats",
	}
}

// words returns the call in a language, that of customers' words left out.
func (n *news) words(locale string) words {
	if !strings.HasPrefix(locale, "zh") {
		locale = "en"
	}
	t := textsOf(locale)
	var lines []string
	add := func(number int, one, more string) {
		switch {
		case number == 1:
			lines = append(lines, one)
		case number > 1:
			lines = append(lines, fmt.Sprintf(more, figure(number)))
		}
	}
	add(n.offers, t.offer, t.offers)
	add(n.given, t.given, t.gives)
	if n.messages > 1 && len(n.chats) > 1 && n.offers+n.given == 0 {
		lines = append(lines, fmt.Sprintf(t.chats, figure(n.messages), figure(len(n.chats))))
	} else {
		add(n.messages, t.message, t.messages)
	}
	w := words{Title: lines[0], Body: strings.Join(lines[1:], "\n"), Locale: locale}
	if len(n.chats) == 1 {
		for c := range n.chats {
			w.Conv = c
		}
	}
	return w
}

// figure writes a number, which is not counted beyond 99.
func figure(n int) string {
	if n >= maxChats {
		return fmt.Sprintf("%d+", maxChats-1)
	}
	return fmt.Sprint(n)
}
