package bytesize

import "testing"

// TestBytes: what is read is written again, in the largest unit that fits; what is no size is refused.
func TestBytes(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "1000": "1000", "1024": "1KiB", "512KiB": "512KiB", "1024KiB": "1MiB", "20 MiB": "20MiB", "3GiB": "3GiB", "1536MiB": "1536MiB"} {
		if n, err := Parse(text); err != nil || Format(n) != want {
			t.Errorf("%q: %s %v, want %s", text, Format(n), err, want)
		}
	}
	for _, text := range []string{"", "MiB", "20MB", "-1KiB", "1.5MiB", "8589934592GiB", "9223372036854775808"} {
		if n, err := Parse(text); err == nil {
			t.Errorf("%q is %d", text, n)
		}
	}
}
