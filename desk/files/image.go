package files

import (
	"bufio"
	"encoding/binary"
	"errors"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
)

// HeaderBytes is how much of a picture must contain its size.
const HeaderBytes = 8 << 20

const (
	maxPixels     = 100_000_000 // pixels of a picture; more would exhaust the browser that shows it
	exifApp       = 0xe1
	orientationID = 0x0112
)

var errImage = errors.New("files: the header of the picture makes no sense")

// dimensions reads the size of a picture from its header, as it is shown. A photograph marked as lying on its side is
// turned. At most HeaderBytes bytes are read, and nothing is decoded. Other types have no size.
func dimensions(mediaType string, r io.ReaderAt, size int64) (width, height int, err error) {
	header := func() io.Reader {
		return bufio.NewReader(io.NewSectionReader(r, 0, min(size, HeaderBytes)))
	}
	var c image.Config
	switch mediaType {
	case "image/png":
		c, err = png.DecodeConfig(header())
	case "image/gif":
		c, err = gif.DecodeConfig(header())
	case "image/jpeg":
		c, err = jpeg.DecodeConfig(header())
		if err == nil && turned(header()) {
			c.Width, c.Height = c.Height, c.Width
		}
	case "image/webp":
		c, err = webpConfig(header())
	default:
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	if c.Width <= 0 || c.Height <= 0 {
		return 0, 0, errImage
	}
	return c.Width, c.Height, nil
}

// webpConfig reads the size of a WebP picture (RFC 9649 sections 2.5 to 2.7).
func webpConfig(r io.Reader) (c image.Config, err error) {
	var b [30]byte
	if n, err := io.ReadFull(r, b[:]); n < 25 {
		return c, err
	}
	if string(b[:4]) != "RIFF" || string(b[8:12]) != "WEBP" {
		return c, errImage
	}
	switch string(b[12:16]) {
	case "VP8 ": // RFC 6386 section 9.1: a key frame
		if b[20]&1 != 0 || b[23] != 0x9d || b[24] != 0x01 || b[25] != 0x2a {
			return c, errImage
		}
		c.Width, c.Height = int(binary.LittleEndian.Uint16(b[26:]))&0x3fff, int(binary.LittleEndian.Uint16(b[28:]))&0x3fff
	case "VP8L":
		if b[20] != 0x2f {
			return c, errImage
		}
		bits := binary.LittleEndian.Uint32(b[21:])
		c.Width, c.Height = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
	case "VP8X":
		c.Width, c.Height = uint24(b[24:])+1, uint24(b[27:])+1
	default:
		return c, errImage
	}
	return c, nil
}

func uint24(b []byte) int { return int(b[0]) | int(b[1])<<8 | int(b[2])<<16 }

// turned reports whether a JPEG picture is shown with its sides exchanged. It looks for the orientation in the Exif
// part, which comes before the picture.
func turned(r io.Reader) bool {
	var soi [2]byte
	if _, err := io.ReadFull(r, soi[:]); err != nil {
		return false
	}
	for {
		marker, body, err := segment(r)
		if err != nil || marker == 0xda || (marker >= 0xc0 && marker <= 0xc3) {
			return false
		}
		if marker == exifApp && len(body) > 6 && string(body[:6]) == "Exif\x00\x00" {
			o := orientation(body[6:])
			return o >= 5 && o <= 8
		}
	}
}

// segment reads one marker segment of a JPEG file (ITU T.81 section B.1.1.4).
func segment(r io.Reader) (marker byte, body []byte, err error) {
	var b [4]byte
	if _, err := io.ReadFull(r, b[:2]); err != nil {
		return 0, nil, err
	}
	for b[0] == 0xff && b[1] == 0xff { // fill bytes
		if _, err := io.ReadFull(r, b[1:2]); err != nil {
			return 0, nil, err
		}
	}
	if b[0] != 0xff {
		return 0, nil, errImage
	}
	if _, err := io.ReadFull(r, b[2:]); err != nil {
		return 0, nil, err
	}
	n := int(binary.BigEndian.Uint16(b[2:]))
	if n < 2 {
		return 0, nil, errImage
	}
	body = make([]byte, n-2)
	_, err = io.ReadFull(r, body)
	return b[1], body, err
}

// orientation returns the value of the orientation field in the first directory of a TIFF structure, 0 if there is none.
func orientation(tiff []byte) int {
	if len(tiff) < 8 {
		return 0
	}
	var order binary.ByteOrder = binary.BigEndian
	switch string(tiff[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
	default:
		return 0
	}
	at := int64(order.Uint32(tiff[4:]))
	if at+2 > int64(len(tiff)) {
		return 0
	}
	dir := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(dir) < 12 {
			return 0
		}
		if order.Uint16(dir) == orientationID {
			return int(order.Uint16(dir[8:]))
		}
		dir = dir[12:]
	}
	return 0
}
