package desk

import (
	"errors"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cmdtest"
	"github.com/go-eddy/eddy/desk/desktest"
	"github.com/go-eddy/eddy/desk/files"
	"github.com/go-eddy/eddy/desk/front"
	"github.com/go-eddy/eddy/internal/testkit"
)

// Without a flag the command has the library's defaults, and each flag sets its option.
func TestUploadFlags(t *testing.T) {
	parse := func(args ...string) front.Uploads {
		t.Helper()
		var f uploadFlags
		cmd := &cobra.Command{}
		f.register(cmd)
		if err := cmd.ParseFlags(args); err != nil {
			t.Fatal(err)
		}
		if err := f.check(); err != nil {
			t.Fatal(err)
		}
		return f.options()
	}
	defaults := front.Uploads{
		MaxSize: 20 << 20, VisitorBytes: 100 << 20, VisitorFiles: 100, StaffBytes: 1 << 30, SiteBytes: 10 << 30, MinFree: 256 << 20, Types: files.Types(),
		Pace: 10 * time.Second, MaxTime: 5 * time.Minute, Loose: 24 * time.Hour,
	}
	if got := parse(); !reflect.DeepEqual(got, defaults) {
		t.Errorf("without flags %+v", got)
	}
	want := front.Uploads{MaxSize: 1, VisitorBytes: 2, VisitorFiles: 3, StaffBytes: 4, SiteBytes: -1, MinFree: -1, Types: []string{}, Pace: 5, MaxTime: 6, Loose: 7}
	if got := parse("--upload-size=1", "--upload-visitor=2", "--upload-visitor-files=3", "--upload-staff=4", "--upload-site=0", "--upload-min-free=0", "--upload-types=none",
		"--upload-pace=5ns", "--upload-time=6ns", "--upload-unsent=7ns"); !reflect.DeepEqual(got, want) {
		t.Errorf("with all flags %+v", got)
	}
}

// TestDeskUploadSettings: the running server takes what the flags say, and nothing else.
func TestDeskUploadSettings(t *testing.T) {
	t.Setenv("EDDY_DESK_UPLOAD_SIZE", "1KiB")
	data, _ := cmdtest.MadeDesk(t)
	p := cmdtest.StartServer(t, "desk", "--addr", "127.0.0.1:0", "--data", data, "--upload-types", "text/plain")
	ctx := testkit.Context(t)
	web := desktest.NewWeb(func() string { return "http://" + p.Addr })
	defer web.CloseIdle()
	visitor := new(desktest.Visitor)
	customer := web.CustomerBy("demo", visitor)
	defer customer.Close()
	conv, err := customer.Open(ctx, "human")
	if err != nil {
		t.Fatal(err)
	}
	if w, _ := customer.Welcome(); w.Limits.File != 1024 {
		t.Errorf("clients are told that a file may have %d bytes", w.Limits.File)
	}
	for _, c := range []struct {
		body string
		want int
	}{{"a note", 0}, {strings.Repeat("a note ", 200), http.StatusRequestEntityTooLarge}, {"%PDF-1.7\n", http.StatusUnsupportedMediaType}} {
		_, err := web.Upload(ctx, visitor.Token(), conv, "x", strings.NewReader(c.body), int64(len(c.body)))
		status := 0
		if no, refused := errors.AsType[*desktest.Refused](err); refused {
			status = no.Status
		} else if err != nil {
			t.Error(err)
		}
		if status != c.want {
			t.Errorf("%.10q of %d bytes: %d, want %d", c.body, len(c.body), status, c.want)
		}
	}
	p.Stop()
}
