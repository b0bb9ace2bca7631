package files

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

// moving is a GIF file of two pictures.
func moving(t testing.TB) []byte {
	t.Helper()
	picture := image.NewPaletted(image.Rect(0, 0, 40, 30), []color.Color{color.Black, color.White})
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{picture, picture}, Delay: []int{1, 1}}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withChunk puts a chunk behind the header of a PNG file.
func withChunk(file []byte, kind string, data []byte) []byte {
	const header = 33 // signature and IHDR
	chunk := append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), kind...)
	chunk = append(chunk, data...)
	return slices.Concat(file[:header], binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:])), file[header:])
}

// reaching is a GIF file whose picture is larger than its screen.
func reaching(t testing.TB, width uint16) []byte {
	t.Helper()
	b := gifOf(t, 40, 30)
	at := bytes.LastIndexByte(b[:len(b)-20], ',')
	binary.LittleEndian.PutUint16(b[at+5:], width)
	return b
}

func padded(file []byte, size int) []byte { return append(file, make([]byte, size-len(file))...) }

func TestLogo(t *testing.T) {
	for name, c := range map[string]struct {
		content []byte
		mime    string
		w, h    int
	}{
		"png":                     {pngOf(t, 40, 30), "image/png", 40, 30},
		"png with a comment":      {withChunk(pngOf(t, 40, 30), "tEXt", []byte("acTL")), "image/png", 40, 30},
		"jpeg":                    {withOrientation(jpegOf(t, 40, 30), binary.BigEndian, 6), "image/jpeg", 30, 40},
		"webp":                    {webpOf("VP8L", 0x2f, 39, 0x40, 7, 0), "image/webp", 40, 30},
		"webp extended":           {webpOf("VP8X", 0x10, 0, 0, 0, 39, 0, 0, 29, 0, 0), "image/webp", 40, 30},
		"still gif":               {gifOf(t, 40, 30), "image/gif", 40, 30},
		"gif beyond its screen":   {reaching(t, store.MaxLogoSide), "image/gif", store.MaxLogoSide, 30},
		"as large as it may be":   {padded(pngOf(t, store.MaxLogoSide, store.MaxLogoSide), store.MaxLogoBytes), "image/png", store.MaxLogoSide, store.MaxLogoSide},
		"a page behind a picture": {append(gifOf(t, 40, 30), "<script>alert(1)</script>"...), "image/gif", 40, 30},
	} {
		l, err := Logo(c.content)
		if err != nil || l.Type != c.mime || l.Width != c.w || l.Height != c.h || !bytes.Equal(l.Content, c.content) || len(l.Hash) != 32 {
			t.Errorf("%s: %s, %d × %d, %q (%v)", name, l.Type, l.Width, l.Height, l.Hash, err)
		}
	}
	whole := pngOf(t, 40, 30)
	bomb := bytes.Clone(whole)
	binary.BigEndian.PutUint32(bomb[16:], 1<<30)
	binary.BigEndian.PutUint32(bomb[29:], crc32.ChecksumIEEE(bomb[12:29]))
	for name, c := range map[string]struct {
		content []byte
		problem store.Problem
	}{
		"svg":                       {[]byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), store.Problem{Reason: store.ReasonSVG}},
		"svg, long":                 {padded([]byte(`<svg>`+strings.Repeat(" ", 5000)), store.MaxLogoBytes+1), store.Problem{Reason: store.ReasonSVG}},
		"a page":                    {[]byte("<!doctype html>"), store.Problem{Reason: store.ReasonPicture, Value: "text/html"}},
		"a photograph of a phone":   {[]byte("\x00\x00\x00\x18ftypheic\x00\x00\x00\x00"), store.Problem{Reason: store.ReasonPicture, Value: "image/heic"}},
		"nothing":                   {[]byte{}, store.Problem{Reason: store.ReasonPicture, Value: unknownType}},
		"a byte too many":           {padded(whole, store.MaxLogoBytes+1), store.Problem{Reason: store.ReasonBytes, Limit: store.MaxLogoBytes, Value: "131073"}},
		"a pixel too wide":          {pngOf(t, store.MaxLogoSide+1, 1), store.Problem{Reason: store.ReasonPixels, Limit: store.MaxLogoSide, Value: "2049 × 1"}},
		"a pixel too high":          {pngOf(t, 1, store.MaxLogoSide+1), store.Problem{Reason: store.ReasonPixels, Limit: store.MaxLogoSide, Value: "1 × 2049"}},
		"a bomb":                    {bomb, store.Problem{Reason: store.ReasonPixels, Limit: store.MaxLogoSide, Value: "1073741824 × 30"}},
		"gif far beyond its screen": {reaching(t, 0xffff), store.Problem{Reason: store.ReasonPixels, Limit: store.MaxLogoSide, Value: "65535 × 30"}},
		"moving gif":                {moving(t), store.Problem{Reason: store.ReasonMoves}},
		"moving png":                {withChunk(whole, "acTL", make([]byte, 8)), store.Problem{Reason: store.ReasonMoves}},
		"moving webp":               {webpOf("VP8X", 2, 0, 0, 0, 39, 0, 0, 29, 0, 0), store.Problem{Reason: store.ReasonMoves}},
		"png without a picture":     {whole[:33], store.Problem{Reason: store.ReasonDamaged}},
		"png, a chunk without end":  {withChunk(whole, "tEXt", nil)[:40], store.Problem{Reason: store.ReasonDamaged}},
		"gif without a picture":     {[]byte("GIF89a\x01\x00\x01\x00\x00\x00\x00;"), store.Problem{Reason: store.ReasonDamaged}},
		"jpeg cut off":              {jpegOf(t, 40, 30)[:20], store.Problem{Reason: store.ReasonDamaged}},
	} {
		c.problem.Field = "logo"
		_, err := Logo(c.content)
		var invalid store.Invalid
		if !errors.As(err, &invalid) || len(invalid) != 1 || invalid[0] != c.problem {
			t.Errorf("%s: %v, want %+v", name, err, c.problem)
		}
	}
}

func FuzzLogo(f *testing.F) {
	for _, seed := range [][]byte{pngOf(f, 4, 3), withChunk(pngOf(f, 4, 3), "acTL", nil), gifOf(f, 4, 3), moving(f), jpegOf(f, 4, 3), webpOf("VP8X", 2, 0, 0, 0, 39, 0, 0, 29, 0, 0)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		l, err := Logo(content)
		if err == nil && (l.Width < 1 || l.Height < 1 || l.Width > store.MaxLogoSide || l.Height > store.MaxLogoSide || !Inline(l.Type)) {
			t.Fatalf("%s, %d × %d", l.Type, l.Width, l.Height)
		}
	})
}
