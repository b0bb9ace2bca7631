package files

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is the longest name of a file in bytes.
const maxName = 120

// CleanName makes a name that is safe to show and to save under. It has no path, no control or invisible characters, and
// nothing that a file system reserves. Characters that turn the direction of writing would hide the ending. The ending
// fits the type.
func CleanName(name, mediaType string) string {
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		name = name[i+1:]
	}
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(name, "_") {
		switch {
		case unicode.Is(unicode.C, r), r == utf8.RuneError, unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
		case strings.ContainsRune(`<>:"|?*`, r):
			b.WriteByte('_')
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	name = strings.Trim(b.String(), " .")
	ext := path.Ext(name)
	stem := strings.TrimRight(name[:len(name)-len(ext)], " .")
	if fits := extensions(mediaType); !slices.Contains(fits, strings.ToLower(ext)) {
		stem, ext = name, fits[0]
	}
	if stem == "" || reserved(stem) {
		stem = "file" + stem
	}
	return cut(stem, maxName-len(ext)) + ext
}

// cut shortens s to at most n bytes without cutting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.TrimRight(s[:n], " .")
}

// reserved names devices on Windows, with any ending.
func reserved(stem string) bool {
	stem, _, _ = strings.Cut(strings.ToUpper(stem), ".")
	if len(stem) == 4 && (stem[:3] == "COM" || stem[:3] == "LPT") && stem[3] >= '0' && stem[3] <= '9' {
		return true
	}
	return slices.Contains([]string{"CON", "PRN", "AUX", "NUL"}, stem)
}
