package files

import (
	"bytes"
	"net/http"
	"path"
	"slices"
	"strings"
)

// headBytes is how much of a file is read to find its type.
const headBytes = 4 << 10

// Types returns the types that a Store takes by default. HTML, SVG and programs are not among them.
func Types() []string {
	return []string{
		"image/png", "image/jpeg", "image/gif", "image/webp", "image/heic", "application/pdf", "text/plain", "application/zip",
		docx, xlsx, pptx, odt, ods, odp, "application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint",
		"video/mp4", "video/quicktime", "video/webm", "audio/mpeg", "audio/mp4", "audio/ogg", "audio/wav",
	}
}

const (
	docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
	xlsx = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
	pptx = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
	odt  = "application/vnd.oasis.opendocument.text"
	ods  = "application/vnd.oasis.opendocument.spreadsheet"
	odp  = "application/vnd.oasis.opendocument.presentation"

	unknownType = "application/octet-stream"
)

// Inline reports whether browsers may show files of a type in the page; everything else is downloaded.
func Inline(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// extensions returns the endings that files of a type may have; the first is given to a file with another one.
func extensions(mediaType string) []string {
	switch mediaType {
	case "image/png":
		return []string{".png"}
	case "image/jpeg":
		return []string{".jpg", ".jpeg", ".jfif"}
	case "image/gif":
		return []string{".gif"}
	case "image/webp":
		return []string{".webp"}
	case "image/heic":
		return []string{".heic", ".heif"}
	case "application/pdf":
		return []string{".pdf"}
	case "text/plain":
		return []string{".txt", ".log", ".csv", ".tsv", ".md", ".json", ".yaml", ".yml", ".toml", ".ini", ".conf", ".srt", ".vcf", ".ics", ".eml", ".diff", ".patch", ".sql"}
	case "application/zip":
		return []string{".zip"}
	case docx:
		return []string{".docx"}
	case xlsx:
		return []string{".xlsx"}
	case pptx:
		return []string{".pptx"}
	case odt:
		return []string{".odt"}
	case ods:
		return []string{".ods"}
	case odp:
		return []string{".odp"}
	case "application/msword":
		return []string{".doc"}
	case "application/vnd.ms-excel":
		return []string{".xls"}
	case "application/vnd.ms-powerpoint":
		return []string{".ppt"}
	case "video/mp4":
		return []string{".mp4", ".m4v"}
	case "video/quicktime":
		return []string{".mov"}
	case "video/webm":
		return []string{".webm"}
	case "audio/mpeg":
		return []string{".mp3"}
	case "audio/mp4":
		return []string{".m4a"}
	case "audio/ogg":
		return []string{".ogg", ".oga", ".opus"}
	case "audio/wav":
		return []string{".wav"}
	}
	return []string{".bin"}
}

// Detect returns the media type of a file by its first bytes. The name only decides what the bytes leave open: the kinds
// of office files. Nothing that a browser would run is ever called a picture or a text.
func Detect(head []byte, name string) string {
	head = head[:min(len(head), headBytes)]
	has := func(at int, magic string) bool {
		return len(head) >= at+len(magic) && string(head[at:at+len(magic)]) == magic
	}
	switch {
	case has(0, "\x89PNG\r\n\x1a\n"):
		return "image/png"
	case has(0, "\xff\xd8\xff"):
		return "image/jpeg"
	case has(0, "GIF87a"), has(0, "GIF89a"):
		return "image/gif"
	case has(0, "RIFF") && has(8, "WEBP"):
		return "image/webp"
	case has(0, "RIFF") && has(8, "WAVE"):
		return "audio/wav"
	case has(0, "%PDF-"):
		return "application/pdf"
	case has(0, "PK\x03\x04"):
		return zipType(head, name)
	case has(0, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"):
		return byExtension(name, "application/x-ole-storage", "application/msword", "application/vnd.ms-excel", "application/vnd.ms-powerpoint")
	case has(4, "ftyp") && len(head) >= 12:
		return isoType(string(head[8:12]))
	case has(0, "\x1a\x45\xdf\xa3") && bytes.Contains(head[:min(len(head), 64)], []byte("webm")):
		return "video/webm"
	case has(0, "ID3"), len(head) > 2 && head[0] == 0xff && slices.Contains([]byte{0xfb, 0xf3, 0xf2, 0xfa}, head[1]):
		return "audio/mpeg"
	case has(0, "OggS"):
		return "audio/ogg"
	case has(0, "#!"), has(0, "MZ"), has(0, "\x7fELF"):
		return "application/x-executable"
	}
	return textType(head)
}

func byExtension(name, otherwise string, types ...string) string {
	ext := strings.ToLower(path.Ext(name))
	for _, t := range types {
		if slices.Contains(extensions(t), ext) {
			return t
		}
	}
	return otherwise
}

// zipType tells the office formats, which are archives, from other archives. Programs packed as archives do not count as
// archives.
func zipType(head []byte, name string) string {
	contains := func(s string) bool { return bytes.Contains(head, []byte(s)) }
	switch {
	case contains("META-INF/MANIFEST.MF"), contains("AndroidManifest.xml"):
		return "application/java-archive"
	case contains("mimetype" + odt):
		return odt
	case contains("mimetype" + ods):
		return ods
	case contains("mimetype" + odp):
		return odp
	case contains("[Content_Types].xml"), contains("_rels/.rels"):
		switch {
		case contains("word/"):
			return docx
		case contains("xl/"):
			return xlsx
		case contains("ppt/"):
			return pptx
		}
		return byExtension(name, "application/zip", docx, xlsx, pptx)
	}
	return "application/zip"
}

// isoType returns the type of an ISO base media file by its major brand.
func isoType(brand string) string {
	switch brand {
	case "M4A ", "M4B ":
		return "audio/mp4"
	case "qt  ":
		return "video/quicktime"
	case "heic", "heix", "mif1", "msf1", "heim", "heis":
		return "image/heic"
	case "isom", "iso2", "iso4", "iso5", "iso6", "mp41", "mp42", "avc1", "M4V ", "MSNV", "dash", "3gp4", "3gp5":
		return "video/mp4"
	}
	return unknownType
}

// textType tells text from markup, which a browser might run, and from anything else.
func textType(head []byte) string {
	if len(head) == 0 {
		return unknownType
	}
	if bytes.HasPrefix(head, []byte("\xfe\xff")) || bytes.HasPrefix(head, []byte("\xff\xfe")) {
		head = bytes.ReplaceAll(head[2:], []byte{0}, nil) // UTF-16: enough to see the tags
	}
	head = bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
	if slices.ContainsFunc(head, notText) {
		return unknownType
	}
	lower := bytes.ToLower(bytes.TrimLeft(head, "\t\n\f\r "))
	if len(lower) > 1 && lower[0] == '<' && (lower[1] == '!' || lower[1] == '?' || lower[1] >= 'a' && lower[1] <= 'z') {
		switch {
		case bytes.Contains(lower, []byte("<svg")):
			return "image/svg+xml"
		case strings.HasPrefix(http.DetectContentType(lower), "text/xml"):
			return "text/xml"
		}
		return "text/html"
	}
	return "text/plain"
}

// notText reports whether a byte does not occur in text (WHATWG MIME sniffing, section 3).
func notText(b byte) bool {
	return b <= 0x08 || b == 0x0b || (b >= 0x0e && b <= 0x1a) || (b >= 0x1c && b <= 0x1f)
}
