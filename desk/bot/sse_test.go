package bot

import (
	"io"
	"slices"
	"strings"
	"testing"
)

// FuzzEvents: whatever comes, the reader ends within its bounds.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{"data: a\n\ndata: b\r\n\r\n", "data:a\ndata: b\n\n: c\n\nevent: x\nid: 1\n\n", "data: a", "\n\n\n", "data:\n\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		events := newEventReader(strings.NewReader(s))
		total := 0
		for range len(s) + 1 {
			data, err := events.next()
			if total += len(data); err != nil {
				return
			}
			if len(data) == 0 || total > len(s) {
				t.Fatalf("%q", data)
			}
		}
		t.Fatal("no end")
	})
}

func TestEvents(t *testing.T) {
	events := newEventReader(strings.NewReader("\ufeff: hello\n\nevent: x\nid: 7\ndata: one\ndata:two\nretry: 5\n\n\n\r\ndata: three\r\n\r\ndata: four"))
	var got []string
	for {
		data, err := events.next()
		if err != nil {
			if err != io.EOF { //nolint:errorlint // never wrapped
				t.Error(err)
			}
			break
		}
		got = append(got, string(data))
	}
	if want := []string{"one\ntwo", "three", "four"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
