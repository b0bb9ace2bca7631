package front

import "testing"

func TestBrowserOf(t *testing.T) {
	const webkit = "AppleWebKit/537.36 (KHTML, like Gecko) "
	for header, want := range map[string]string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:128.0) Gecko/20100101 Firefox/128.0":                                                     "Firefox, Windows",
		"Mozilla/5.0 (X11; Linux x86_64) " + webkit + "Chrome/126.0.0.0 Safari/537.36":                                                         "Chrome, Linux",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) " + webkit + "Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0":                                 "Edge, Windows",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 14_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Safari/605.1.15":                   "Safari, macOS",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/126.0 Mobile/15E148 Safari/604": "Chrome, iOS",
		"Mozilla/5.0 (Linux; Android 14; SM-S911B) " + webkit + "SamsungBrowser/25.0 Chrome/121.0.0.0 Mobile Safari/537.36":                    "Samsung Internet, Android",
		"curl/8.5.0": "", "": "", "something on Linux": "Linux",
	} {
		if got := browserOf(header); got != want {
			t.Errorf("%q: %q, want %q", header, got, want)
		}
	}
}
