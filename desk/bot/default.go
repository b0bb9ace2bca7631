package bot

// DefaultRules returns the settings of the built-in bot, as an example to begin with.
func DefaultRules() string {
	return `{
  "greeting": {
    "en": "Hello! I am the assistant of this site. Ask me something, or talk to a person.",
    "zh": "您好！我是本站助手。您可以直接提问，也可以转人工。"
  },
  "buttons": ["human", "hours"],
  "unknown": {
    "say": {
      "en": "I did not understand that. You can choose below, or write “human” to talk to a person.",
      "zh": "抱歉，我没有听懂。请选择下面的选项，或输入“人工”转接客服。"
    }
  },
  "handoff": {
    "en": "I am passing you to a person. You can keep writing, it will be seen.",
    "zh": "正在为您转接人工客服。您可以继续留言，客服会看到。"
  },
  "rules": [
    {
      "name": "human",
      "label": {"en": "Talk to a person", "zh": "转人工"},
      "keywords": ["human", "agent", "人工"],
      "handoff": true,
      "reason": "the customer asked for a person"
    },
    {
      "name": "hours",
      "label": {"en": "When do you answer?", "zh": "什么时候回复？"},
      "reply": [{
        "en": "You can write at any time. A person answers as soon as one is free.",
        "zh": "您可以随时留言，客服有空时会尽快回复。"
      }],
      "buttons": ["human"]
    }
  ]
}
`
}

// Default returns the built-in bot, which uses DefaultRules.
func Default() *Rules {
	c, err := ParseRules(DefaultRules())
	if err != nil {
		panic(err) // a test reads them
	}
	return NewRules(c)
}
