package web

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

func TestReadLanguages(t *testing.T) {
	file := func(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content)} }
	all, err := ReadLanguages(fstest.MapFS{
		"ar.json": file(`{"name":"العربية","dir":"rtl","texts":{"retry":"أعد المحاولة"}}`), "pt-BR.json": file(`{"name":"Português","texts":{"retry":"De novo"}}`), "README.md": file("no language"),
	})
	if err != nil || len(all) != 2 || all["ar"].Dir != "rtl" || all["pt-BR"].Texts["retry"] != "De novo" {
		t.Fatalf("%v, %v", all, err)
	}
	many := fstest.MapFS{}
	for i := range MaxLanguages + 1 {
		many[fmt.Sprintf("a%c%c.json", 'a'+i/26, 'a'+i%26)] = file(`{"name":"A","texts":{"retry":"A"}}`)
	}
	for want, folder := range map[string]fstest.MapFS{
		"51 languages; at most 50":                        many,
		"language es.json: 262145 bytes; at most":         {"es.json": file(strings.Repeat(" ", MaxLanguage+1))},
		"language en.json: this language is built":        {"en.json": file(`{"name":"E","texts":{"retry":"A"}}`)},
		"language klingon.json: the name is no":           {"klingon.json": file(`{"name":"E","texts":{"retry":"A"}}`)},
		"language es.json: invalid character":             {"es.json": file(`{"name":'E'}`)},
		`language es.json: "name" is missing`:             {"es.json": file(`{"texts":{"retry":"A"}}`)},
		`language es.json: "name" has over 40 characters`: {"es.json": file(`{"name":"` + strings.Repeat("é", 41) + `","texts":{"retry":"A"}}`)},
		`language es.json: "dir" is "up"; it is ltr`:      {"es.json": file(`{"name":"E","dir":"up","texts":{"retry":"A"}}`)},
		`language es.json: "texts" is missing`:            {"es.json": file(`{"name":"E","texts":{}}`)},
	} {
		if _, err := ReadLanguages(folder); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
