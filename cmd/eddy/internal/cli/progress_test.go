package cli

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestIsTerminal(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if IsTerminal(null) || IsTerminal(new(bytes.Buffer)) {
		t.Error("what nobody sees is taken for a terminal")
	}
}

// TestPace: nothing for two seconds, then a line, and the next when it is due.
func TestPace(t *testing.T) {
	from := time.Unix(0, 0)
	p := (&Terminal{Err: new(bytes.Buffer)}).Pace(from)
	for _, c := range []struct {
		at  time.Duration
		due bool
	}{{0, false}, {1999, false}, {2000, true}, {2001, false}, {11_999, false}, {12_500, true}, {22_499, false}, {22_500, true}} {
		if got := p.Due(from.Add(c.at * time.Millisecond)); got != c.due {
			t.Errorf("after %d ms due is %v", c.at, got)
		}
	}
}

// TestMeanwhile: what takes less than two seconds says nothing; what takes longer is told of, until it is over.
func TestMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		tt := &Terminal{Err: &b}
		done := tt.Meanwhile("short")
		time.Sleep(1900 * time.Millisecond)
		done()
		done = tt.Meanwhile("long")
		time.Sleep(13 * time.Second)
		done()
		time.Sleep(time.Hour)
		if got, want := b.String(), "eddy: long: 2s\neddy: long: 12s\n"; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	})
}

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		tell := (&Terminal{Err: &b}).Progress("backup", time.Now())
		for n := range int64(30) {
			tell(n<<20, 30<<20)
			tell(0, 0) // the total is not known yet
			time.Sleep(time.Second)
		}
		if !regexp.MustCompile(`^eddy: backup: 2\.0 MiB of 30\.0 MiB, 6 %\neddy: backup: 12\.0 MiB of 30\.0 MiB, 40 %\neddy: backup: 22\.0 MiB of 30\.0 MiB, 73 %\n$`).MatchString(b.String()) {
			t.Errorf("told %q", b.String())
		}
	})
}
