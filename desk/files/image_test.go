package files

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"testing"
)

func pngOf(t testing.TB, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func jpegOf(t testing.TB, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, w, h)), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gifOf(t testing.TB, w, h int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := gif.Encode(&b, image.NewPaletted(image.Rect(0, 0, w, h), []color.Color{color.Black, color.White}), nil); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withOrientation puts an Exif part with the orientation behind the start of a JPEG file.
func withOrientation(jpg []byte, order binary.AppendByteOrder, value uint16) []byte {
	mark := "MM\x00*"
	if order == binary.AppendByteOrder(binary.LittleEndian) {
		mark = "II*\x00"
	}
	tiff := order.AppendUint32([]byte(mark), 8)
	tiff = order.AppendUint16(tiff, 2)
	for _, e := range [][2]uint16{{0x010f, 7}, {orientationID, value}} {
		tiff = order.AppendUint16(tiff, e[0])
		tiff = order.AppendUint16(tiff, 3)
		tiff = order.AppendUint32(tiff, 1)
		tiff = order.AppendUint16(tiff, e[1])
		tiff = order.AppendUint16(tiff, 0)
	}
	body := append([]byte("Exif\x00\x00"), tiff...)
	part := binary.BigEndian.AppendUint16([]byte{0xff, exifApp}, uint16(len(body)+2))
	return append(append(append([]byte{0xff, 0xd8}, part...), body...), jpg[2:]...)
}

func webpOf(kind string, data ...byte) []byte {
	b := append([]byte("RIFF\x00\x00\x00\x00WEBP"+kind), 0, 0, 0, 0)
	b = append(b, data...)
	return append(b, make([]byte, max(0, 40-len(b)))...)
}

func TestDimensions(t *testing.T) {
	for name, c := range map[string]struct {
		mime string
		data []byte
		w, h int
	}{
		"png":             {"image/png", pngOf(t, 40, 30), 40, 30},
		"gif":             {"image/gif", gifOf(t, 40, 30), 40, 30},
		"jpeg":            {"image/jpeg", jpegOf(t, 40, 30), 40, 30},
		"jpeg upright":    {"image/jpeg", withOrientation(jpegOf(t, 40, 30), binary.BigEndian, 3), 40, 30},
		"jpeg lying":      {"image/jpeg", withOrientation(jpegOf(t, 40, 30), binary.BigEndian, 6), 30, 40},
		"jpeg lying, II":  {"image/jpeg", withOrientation(jpegOf(t, 40, 30), binary.LittleEndian, 8), 30, 40},
		"jpeg, nonsense":  {"image/jpeg", withOrientation(jpegOf(t, 40, 30), binary.LittleEndian, 9), 40, 30},
		"webp":            {"image/webp", webpOf("VP8 ", 0, 0, 0, 0x9d, 1, 0x2a, 40, 0x40, 30, 0x40), 40, 30}, // the top bits are a scale
		"webp lossless":   {"image/webp", webpOf("VP8L", 0x2f, 39, 0x40, 7, 0), 40, 30},
		"webp extended":   {"image/webp", webpOf("VP8X", 0, 0, 0, 0, 39, 0, 0, 29, 0, 0), 40, 30},
		"something else":  {"application/pdf", []byte("%PDF-"), 0, 0},
		"gif with script": {"image/gif", append(gifOf(t, 40, 30), "<script>alert(1)</script>"...), 40, 30},
	} {
		w, h, err := dimensions(c.mime, bytes.NewReader(c.data), int64(len(c.data)))
		if err != nil || w != c.w || h != c.h {
			t.Errorf("%s: %d × %d (%v), want %d × %d", name, w, h, err, c.w, c.h)
		}
	}
	whole := pngOf(t, 40, 30)
	for name, c := range map[string]struct {
		mime string
		data []byte
	}{
		"png cut off":        {"image/png", whole[:20]},
		"png of 0 pixels":    {"image/png", bytes.Replace(whole, whole[16:24], make([]byte, 8), 1)},
		"gif of 0 pixels":    {"image/gif", []byte("GIF89a\x00\x00\x00\x00\x00\x00\x00")},
		"jpeg cut off":       {"image/jpeg", jpegOf(t, 40, 30)[:20]},
		"jpeg without size":  {"image/jpeg", []byte("\xff\xd8\xff\xda\x00\x02")},
		"webp cut off":       {"image/webp", webpOf("VP8 ")[:20]},
		"webp without start": {"image/webp", webpOf("VP8 ", 0, 0, 0, 1, 2, 3)},
		"webp, not a key":    {"image/webp", webpOf("VP8 ", 1, 0, 0, 0x9d, 1, 0x2a, 40, 0, 30, 0)},
		"webp lossless, bad": {"image/webp", webpOf("VP8L", 0, 39, 0x40, 7, 0)},
		"webp of 0 pixels":   {"image/webp", webpOf("VP8 ", 0, 0, 0, 0x9d, 1, 0x2a, 0, 0, 30, 0)},
		"webp of no kind":    {"image/webp", webpOf("ALPH")},
		"not webp":           {"image/webp", bytes.Repeat([]byte("x"), 40)},
	} {
		if w, h, err := dimensions(c.mime, bytes.NewReader(c.data), int64(len(c.data))); err == nil {
			t.Errorf("%s: %d × %d", name, w, h)
		}
	}
}

// counted counts what is read of a picture.
type counted struct {
	*bytes.Reader
	n int64
}

func (c *counted) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.Reader.ReadAt(p, off)
	c.n += int64(n)
	return n, err
}

// A picture whose header is hidden behind a lot of something else is not read to its end.
func TestHeadersAreBounded(t *testing.T) {
	junk := []byte{0xff, 0xd8}
	for range 300 { // comments of 64 KiB
		junk = append(junk, 0xff, 0xfe, 0xff, 0xff)
		junk = append(junk, make([]byte, 0xfffd)...)
	}
	r := &counted{Reader: bytes.NewReader(junk)}
	if _, _, err := dimensions("image/jpeg", r, int64(len(junk))); err == nil || r.n > HeaderBytes {
		t.Errorf("%v after %d bytes, the limit is %d", err, r.n, HeaderBytes)
	}
}

func FuzzImageHeader(f *testing.F) {
	for _, seed := range [][]byte{
		pngOf(f, 4, 3), gifOf(f, 4, 3), jpegOf(f, 4, 3), withOrientation(jpegOf(f, 4, 3), binary.LittleEndian, 6),
		webpOf("VP8 ", 0, 0, 0, 0x9d, 1, 0x2a, 40, 0, 30, 0), webpOf("VP8L", 0x2f, 39, 0x40, 7, 0), webpOf("VP8X", 0, 0, 0, 0, 39, 0, 0, 29, 0, 0),
		[]byte("\xff\xd8\xff\xff\xff\xe1\x00\x10Exif\x00\x00II*\x00\xff\xff\xff\xff"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, mime := range []string{"image/png", "image/jpeg", "image/gif", "image/webp", Detect(data, "x")} {
			r := &counted{Reader: bytes.NewReader(data)}
			w, h, err := dimensions(mime, r, int64(len(data)))
			if err == nil && (w < 0 || h < 0 || (Inline(mime) && (w == 0 || h == 0))) {
				t.Fatalf("%s: %d × %d", mime, w, h)
			}
			if r.n > 2*HeaderBytes {
				t.Fatalf("%s: read %d bytes", mime, r.n)
			}
		}
	})
}
