package front

import "strings"

// browserOf returns the kind of a browser and its system, "Firefox, Windows", by its header User-Agent. What is not among
// the usual ones is left out. Versions are never returned.
func browserOf(header string) string {
	kind := firstOf(header, [][2]string{
		{"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"}, {"MicroMessenger/", "WeChat"}, {"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"},
		{"Chrome/", "Chrome"}, {"CriOS/", "Chrome"}, {"Safari/", "Safari"},
	})
	system := firstOf(header, [][2]string{
		{"Windows", "Windows"}, {"Android", "Android"}, {"iPhone", "iOS"}, {"iPad", "iOS"}, {"CrOS", "ChromeOS"}, {"Mac OS X", "macOS"}, {"Linux", "Linux"},
	})
	return strings.Trim(kind+", "+system, ", ")
}

// firstOf returns the name of the first mark that a text has, or "".
func firstOf(text string, marks [][2]string) string {
	for _, m := range marks {
		if strings.Contains(text, m[0]) {
			return m[1]
		}
	}
	return ""
}
