package files

import (
	"bytes"
	"encoding/binary"

	"github.com/go-eddy/eddy/desk/store"
)

// Logo makes a site's logo of the content of a file, whatever the file is called. Nothing is decoded: type, size and
// number of pictures are read from the headers. The error is a store.Invalid.
func Logo(content []byte) (store.Logo, error) {
	l := store.NewLogo(Detect(content, ""), 0, 0, content)
	if len(content) > store.MaxLogoBytes || !Inline(l.Type) {
		return l, l.Check()
	}
	var err error
	if l.Width, l.Height, err = dimensions(l.Type, bytes.NewReader(content), int64(len(content))); err != nil {
		l.Width, l.Height = 0, 0 // damaged
		return l, l.Check()
	}
	pictures := 1
	switch l.Type {
	case "image/gif":
		var width, height int
		pictures, width, height = gifPictures(content)
		l.Width, l.Height = max(l.Width, width), max(l.Height, height)
	case "image/png":
		pictures = pngPictures(content)
	case "image/webp":
		const animated = 0x02 // RFC 9649 section 2.7
		if string(content[12:16]) == "VP8X" && content[20]&animated != 0 {
			pictures = 2
		}
	}
	switch {
	case pictures > 1:
		return l, store.Invalid{{Field: "logo", Reason: store.ReasonMoves}}
	case pictures < 1:
		l.Width, l.Height = 0, 0
	}
	return l, l.Check()
}

// pngPictures counts the pictures of a PNG file as far as 2: one that has more says so before the first, in an acTL chunk.
func pngPictures(b []byte) int {
	const signature, head, sum = 8, 8, 4
	for b = b[signature:]; len(b) >= head; {
		length := int64(binary.BigEndian.Uint32(b))
		switch string(b[4:head]) {
		case "IDAT":
			return 1
		case "acTL":
			return 2
		}
		if length > int64(len(b)-head-sum) {
			return 0
		}
		b = b[head+length+sum:]
	}
	return 0
}

// gifPictures counts the pictures of a GIF file (GIF89a appendix A) as far as 2, and returns how far the first reaches.
// Browsers enlarge the screen that the header names to that.
func gifPictures(b []byte) (n, width, height int) {
	const header, separator, descriptor = 13, 1, 9
	b = b[min(len(b), header+colours(b[10])):]
	for len(b) > separator {
		kind := b[0]
		b = b[separator:]
		switch {
		case kind == ',' && len(b) > descriptor:
			if n++; n > 1 {
				return n, width, height
			}
			at := func(i int) int { return int(binary.LittleEndian.Uint16(b[i:])) }
			width, height = at(0)+at(4), at(2)+at(6)
			b = b[min(len(b), descriptor+colours(b[8])+1):] // behind the size of the first code
		case kind == '!':
			b = b[1:] // the label
		default: // the trailer, or nonsense
			return n, width, height
		}
		for len(b) > 0 && b[0] > 0 {
			b = b[min(len(b), 1+int(b[0])):]
		}
		b = b[min(len(b), 1):]
	}
	return n, width, height
}

// colours returns the bytes of the table of colours that packed fields announce.
func colours(packed byte) int {
	if packed&0x80 == 0 {
		return 0
	}
	return 3 << (packed&7 + 1)
}
