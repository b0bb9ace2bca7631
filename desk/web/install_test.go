package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image/color"
	"image/png"
	"path"
	"strings"
	"testing"
)

// The manifest names the console, its icons have the sizes that it says, and they are drawn as the icon of the pages is.
func TestManifest(t *testing.T) {
	var m struct {
		ID, Name, Scope, Display string
		Start                    string `json:"start_url"`
		Theme                    string `json:"theme_color"`
		Icons                    []struct{ Src, Sizes, Type, Purpose string }
	}
	if err := json.Unmarshal(read(t, "console.webmanifest"), &m); err != nil {
		t.Fatal(err)
	}
	if m.ID != "/console" || m.Start != "/console" || m.Scope != "/console" || m.Display != "standalone" || m.Name == "" {
		t.Errorf("%+v", m)
	}
	var red, green, blue uint8
	if _, err := fmt.Sscanf(m.Theme, "#%02x%02x%02x", &red, &green, &blue); err != nil || !bytes.Contains(read(t, "icon.svg"), []byte(`fill="`+m.Theme+`"`)) {
		t.Fatalf("%q: %v", m.Theme, err)
	}
	ground, white := color.RGBA{red, green, blue, 255}, color.RGBA{255, 255, 255, 255}
	purposes := ""
	for _, icon := range m.Icons {
		purposes += icon.Purpose + " "
		name := strings.TrimPrefix(icon.Src, "/assets/")
		if path.Ext(name) == ".svg" {
			continue
		}
		img, err := png.Decode(bytes.NewReader(read(t, name)))
		if err != nil {
			t.Fatal(err)
		}
		size := img.Bounds().Dx()
		if fmt.Sprintf("%dx%d", size, img.Bounds().Dy()) != icon.Sizes || icon.Type != "image/png" {
			t.Errorf("%s is %d wide, the manifest says %s of %s", name, size, icon.Sizes, icon.Type)
		}
		corner := color.Color(color.RGBA{})
		if icon.Purpose == "maskable" { // the system cuts the corners off
			corner = ground
		}
		at := func(x, y int) color.Color { return color.RGBAModel.Convert(img.At(x*(size-1)/32, y*(size-1)/32)) }
		if at(0, 0) != corner || at(16, 4) != ground || at(16, 14) != white || at(28, 28) != ground {
			t.Errorf("%s: %v %v %v %v", name, at(0, 0), at(16, 4), at(16, 14), at(28, 28))
		}
	}
	if purposes != "any any maskable " {
		t.Errorf("icons: %s", purposes)
	}
	badge, err := png.Decode(bytes.NewReader(read(t, "badge.png")))
	if err != nil {
		t.Fatal(err)
	}
	if badge.Bounds().Dx() != 96 || color.RGBAModel.Convert(badge.At(48, 30)) != color.Color(white) || color.RGBAModel.Convert(badge.At(2, 2)) != color.Color(color.RGBA{}) {
		t.Error("the badge is not white on nothing")
	}
	if !bytes.Contains(read(t, "js/console/push.js"), []byte("'/console/worker.js'")) || bytes.Contains(read(t, worker), []byte("'fetch'")) {
		t.Error("the page does not name the worker, or the worker answers requests")
	}
}
