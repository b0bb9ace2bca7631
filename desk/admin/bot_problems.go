package admin

// botProblems returns what package bot says about wrong settings, in Chinese.
func botProblems() map[string]string {
	return map[string]string{
		"a text is missing": "缺少文字",
		`%q is no language, want two letters like "en" or "zh"`:            `%q 不是语言，应为两个字母，如 "en" 或 "zh"`,
		"the text in %q is empty":                                          "%q 的文字为空",
		"%d characters in %q, the limit is %d":                             "共 %d 个字符（%q），上限为 %d",
		"the text has no %q, the language of the settings":                 "缺少 %q 的文字，这是设置的语言",
		"name %q, want at most %d of a–z, 0–9, _ and -, a letter first":    "名称 %q 无效，最多 %d 个字符，可用 a–z、0–9、_ 和 -，以字母开头",
		"%d, want 0 (any number) up to %d":                                 "%d 无效，应为 0（不限）至 %d",
		"%d of them, the limit is %d":                                      "共 %d 个，上限为 %d",
		"a second field named %q":                                          "问题名称 %q 重复",
		"%q, want %q, %q or %q":                                            "%q 无效，应为 %q、%q 或 %q",
		"%d, want %d up to %d":                                             "%d 无效，应为 %d 至 %d",
		"%d, want 1 up to %d":                                              "%d 无效，应为 1 至 %d",
		"a second rule named %q":                                           "规则名称 %q 重复",
		"%q, want 1 up to %d characters with a letter or digit among them": "%q 无效，应为 1 至 %d 个字符，且含字母或数字",
		"neither keywords nor a label for a button: nothing leads to it":   "既没有触发词也没有按钮文字，无法到达这条规则",
		"neither a reply nor a hand-off":                                   "既没有回答也不转人工",
		"%d messages with that of a hand-off, the limit is %d":             "连同转接语共 %d 条消息，上限为 %d",
		"they belong under a reply, and there is none":                     "按钮应在回答之下，但没有回答",
		"%d characters, the limit is %d":                                   "共 %d 个字符，上限为 %d",
		"there is no rule named %q":                                        "没有名为 %q 的规则",
		"rule %q has no label for its button":                              "规则 %q 没有按钮文字",
		"rule %q is there twice":                                           "规则 %q 重复",
		"there is no field named %q":                                       "没有名为 %q 的问题",
		"field %q is there twice":                                          "问题 %q 重复",
		"%v":                                                               "%v",
		"%d bytes, want %d up to %d":                                       "共 %d 字节，应为 %d 至 %d",
		"%q is there twice":                                                "%q 重复",
		"only the visible characters of ASCII are possible":                "只能使用可见的 ASCII 字符",
		"%d characters, want %d up to %d":                                  "共 %d 个字符，应为 %d 至 %d",
		"%d bytes, the limit is %d":                                        "共 %d 字节，上限为 %d",
		"%v, want 0 up to %v":                                              "%v 无效，应为 0 至 %v",
		"and %d more problems":                                             "另有 %d 处问题",
	}
}
