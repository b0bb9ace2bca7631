package doctor

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// TestWrite: the text is readable in 80 columns, plain unless colours are asked for, and says every finding and step.
func TestWrite(t *testing.T) {
	f := healthy()
	f.soft, f.hard, f.synced, f.listenErr = 1024, 4096, false, errors.New("out of order")
	f.modes["/var/lib/eddy-desk"] = fs.ModeDir | 0o755
	r := Examine(f, Question{Conns: 100_000, Port: 40_000, DataDir: "/var/lib/eddy-desk"})
	var b strings.Builder
	if err := r.Write(&b, false); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for line := range strings.Lines(text) {
		if n := len(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if strings.Contains(text, "\x1b") {
		t.Error("control characters in a plain text")
	}
	joined := strings.Join(strings.Fields(text), " ")
	for _, f := range r.Findings {
		if !strings.Contains(joined, f.Found) {
			t.Errorf("%q is not in the text", f.Found)
		}
		for _, s := range f.Remedy {
			if !strings.Contains(text, "      "+s.Where+":\n          "+s.Do+"\n") {
				t.Errorf("%+v is not in the text", s)
			}
		}
	}
	for _, want := range []string{
		"eddy doctor: linux 6.1.0, 8 processors, for 100,000 connections\n\n", "\nFAIL  descriptors      soft limit 1,024",
		"\nOK    memory           16.0 GiB", "\nSKIP  TLS              not asked", "\nWARN  clock", "\n8 ok, 3 to look at, 2 failed, 1 left out\n",
	} {
		if !strings.Contains("\n"+text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	b.Reset()
	if err := r.Write(&b, true); err != nil || !strings.Contains(b.String(), "\x1b[31;1mFAIL\x1b[0m  descriptors") {
		t.Errorf("%v, no colours: %q", err, b.String())
	}
	if err := r.Write(failing{}, false); err == nil {
		t.Error("an error of the terminal is swallowed")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestNumbers(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1_000_000: "1,000,000", 123_456: "123,456"} {
		if got := number(n); got != want {
			t.Errorf("number(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[uint64]string{5: "5 bytes", 1024: "1.0 KiB", 1536 << 20: "1.5 GiB", 2048 << 40: "2048.0 TiB"} {
		if got := size(n); got != want {
			t.Errorf("size(%d) = %q, want %q", n, got, want)
		}
	}
	if got := strings.Join(wrap("a bb ccc "+strings.Repeat("d", 9), 4), "|"); got != "a bb|ccc|ddddddddd" {
		t.Errorf("wrap = %q", got)
	}
}
