package front

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"maps"
	"os"

	"github.com/go-eddy/eddy/desk/web"
)

const (
	languageFolder = "lang"                                 // of the language files, embedded and in addresses
	languagesMark  = `<meta name="languages" content="{}">` // in the customer page
)

// loadLanguages returns the languages that come with the program, and those in a folder, which win; "" = no folder.
func loadLanguages(folder string) (map[string]web.Language, error) {
	embedded, err := fs.Sub(web.Files(), languageFolder)
	if err != nil {
		return nil, err
	}
	all, err := web.ReadLanguages(embedded)
	if err != nil || folder == "" {
		return all, err
	}
	more, err := CheckLanguages(folder)
	if err != nil {
		return nil, fmt.Errorf("desk: languages in %s: %w", folder, err)
	}
	maps.Copy(all, more)
	return all, nil
}

// CheckLanguages returns the languages in a folder, or what is wrong with it; "" is no folder and has none.
func CheckLanguages(folder string) (map[string]web.Language, error) {
	if folder == "" {
		return nil, nil
	}
	info, err := os.Stat(folder)
	if err == nil && !info.IsDir() {
		err = errors.New("not a folder")
	}
	if err != nil {
		return nil, err
	}
	return web.ReadLanguages(os.DirFS(folder))
}

// pagesWith returns the pages in the given languages: those of the process unless there are some of a folder.
func pagesWith(folder string, languages map[string]web.Language) (map[string]page, error) {
	if folder == "" {
		return embeddedPages()
	}
	return loadPages(languages)
}

// offer adds the files of languages to the pages, and returns the element that tells the customer page of them.
func offer(languages map[string]web.Language, add func(name string, content []byte) error, hashed map[string]string) ([]byte, error) {
	type offered struct {
		Name string `json:"name"`
		Dir  string `json:"dir,omitempty"`
		At   string `json:"at"`
	}
	all := make(map[string]offered, len(languages))
	for tag, l := range languages {
		content, err := json.Marshal(l)
		if err != nil {
			return nil, err
		}
		name := languageFolder + "/" + tag + ".json"
		if err := add(name, content); err != nil {
			return nil, err
		}
		all[tag] = offered{Name: l.Name, Dir: l.Dir, At: "/assets/" + hashed[name]}
	}
	list, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `<meta name="languages" content="%s">`, html.EscapeString(string(list))), nil
}
