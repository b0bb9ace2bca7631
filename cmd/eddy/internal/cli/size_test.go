package cli

import (
	"testing"
)

func TestByteSize(t *testing.T) {
	for text, want := range map[string]string{"0": "0", "1000": "1000", "1024": "1KiB", "512KiB": "512KiB", "1024KiB": "1MiB", "20 MiB": "20MiB", "3GiB": "3GiB", "1536MiB": "1536MiB"} {
		var b ByteSize
		if err := b.Set(text); err != nil || b.String() != want {
			t.Errorf("%q: %s %v, want %s", text, b.String(), err, want)
		}
	}
	for _, text := range []string{"", "MiB", "20MB", "-1KiB", "1.5MiB", "8589934592GiB", "9223372036854775808"} {
		var b ByteSize
		if err := b.Set(text); err == nil {
			t.Errorf("%q is %d", text, b)
		}
	}
}
