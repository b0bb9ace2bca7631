package bot

import "github.com/go-eddy/eddy/desk/store"

// LeaveMessage is the value of a button with which a customer leaves a message.
const LeaveMessage = "leave_message"

// NobodyThere returns what a customer is told when it asks for a person and nobody is there.
func NobodyThere(text, locale string) string {
	return Text{
		"en": "Nobody is here to answer at the moment. Leave a message with your e-mail address, and we answer when we are back.",
		"zh": "现在没有客服在线。您可以留言并填写电子邮箱，我们上线后会回复您。",
	}.In(languageOf(text, locale), defaultLanguage)
}

// LeaveButton returns the button with which a customer leaves a message.
func LeaveButton(text, locale string) store.Button {
	label := Text{"en": "Leave a message", "zh": "留言"}.In(languageOf(text, locale), defaultLanguage)
	return store.Button{Label: label, Value: LeaveMessage}
}
