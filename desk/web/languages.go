package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Limits of language files.
const (
	MaxLanguages    = 50
	MaxLanguage     = 256 << 10 // bytes of a file
	maxLanguageName = 40        // characters
)

// Language is a language of the customer page besides those that are built in. A file of it is a JSON object; its name
// is the language's tag (RFC 5646), as es.json. A text that is missing is shown in English.
type Language struct {
	Name  string            `json:"name"`          // in the language itself
	Dir   string            `json:"dir,omitempty"` // ltr (default) or rtl: where lines begin
	Texts map[string]string `json:"texts"`
}

// builtIn are the languages that stand in the scripts.
var builtIn = map[string]bool{"en": true, "zh-CN": true}

var tagForm = regexp.MustCompile(`^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$`)

// ReadLanguages reads every file of a folder whose name ends with .json. The error names the file and what is wrong.
func ReadLanguages(folder fs.FS) (map[string]Language, error) {
	names, err := fs.Glob(folder, "*.json")
	if err != nil {
		return nil, err
	}
	if len(names) > MaxLanguages {
		return nil, fmt.Errorf("%d languages; at most %d are read", len(names), MaxLanguages)
	}
	all := make(map[string]Language, len(names))
	for _, name := range names {
		tag := strings.TrimSuffix(path.Base(name), ".json")
		if all[tag], err = readLanguage(folder, name, tag); err != nil {
			return nil, fmt.Errorf("language %s: %w", name, err)
		}
	}
	return all, nil
}

func readLanguage(folder fs.FS, name, tag string) (l Language, err error) {
	info, err := fs.Stat(folder, name)
	switch {
	case err != nil:
		return l, err
	case info.Size() > MaxLanguage:
		return l, fmt.Errorf("%d bytes; at most %d are read", info.Size(), MaxLanguage)
	case builtIn[tag]:
		return l, errors.New("this language is built in")
	case !tagForm.MatchString(tag):
		return l, errors.New("the name is no language tag such as es or pt-BR")
	}
	content, err := fs.ReadFile(folder, name)
	if err != nil {
		return l, err
	}
	if err = json.Unmarshal(content, &l); err != nil {
		return l, err
	}
	switch {
	case strings.TrimSpace(l.Name) == "":
		err = errors.New(`"name" is missing`)
	case utf8.RuneCountInString(l.Name) > maxLanguageName:
		err = fmt.Errorf(`"name" has over %d characters`, maxLanguageName)
	case l.Dir != "" && l.Dir != "ltr" && l.Dir != "rtl":
		err = fmt.Errorf(`"dir" is %q; it is ltr or rtl`, l.Dir)
	case len(l.Texts) == 0:
		err = errors.New(`"texts" is missing`)
	}
	return l, err
}
