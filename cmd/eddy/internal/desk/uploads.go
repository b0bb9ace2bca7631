package desk

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/desk/files"
	"github.com/go-eddy/eddy/desk/front"
)

// uploadFlags bound the files that a Desk takes.
type uploadFlags struct {
	size, visitor, staff, site, free cli.ByteSize
	visitorFiles                     int
	types                            []string
	pace, time, unsent               time.Duration
}

const noTypes = "none"

func (f *uploadFlags) register(cmd *cobra.Command) {
	*f = uploadFlags{size: 20 << 20, visitor: 100 << 20, staff: 1 << 30, site: 10 << 30, free: 256 << 20}
	flags := cmd.Flags()
	flags.Var(&f.size, "upload-size", "largest file, such as 20MiB")
	flags.Var(&f.visitor, "upload-visitor", "what one visitor may upload in an hour")
	flags.IntVar(&f.visitorFiles, "upload-visitor-files", 100, "how many files one visitor may upload in an hour")
	flags.Var(&f.staff, "upload-staff", "what one agent may upload in an hour")
	flags.Var(&f.site, "upload-site", "all files that one site keeps; 0 = no limit")
	flags.Var(&f.free, "upload-min-free", "what has to stay free on the disk; 0 = not looked at")
	flags.StringSliceVar(&f.types, "upload-types", files.Types(), "media types that are taken, by content, separated by commas; "+noTypes+" = no files")
	flags.DurationVar(&f.pace, "upload-pace", 10*time.Second, "in which at least 16 KiB of a file have to arrive")
	flags.DurationVar(&f.time, "upload-time", 5*time.Minute, "for a whole file")
	flags.DurationVar(&f.unsent, "upload-unsent", 24*time.Hour, "how long a file is kept that was uploaded and not sent")
}

func (f *uploadFlags) check() error {
	for name, size := range map[string]cli.ByteSize{"upload-size": f.size, "upload-visitor": f.visitor, "upload-staff": f.staff} {
		if size == 0 {
			return fmt.Errorf("--%s is 0: give a size such as 20MiB; --upload-types %s takes no files", name, noTypes)
		}
	}
	if f.visitorFiles < 1 {
		return fmt.Errorf("--upload-visitor-files is %d: give 1 or more; --upload-types %s takes no files", f.visitorFiles, noTypes)
	}
	for name, d := range map[string]time.Duration{"upload-pace": f.pace, "upload-time": f.time, "upload-unsent": f.unsent} {
		if d <= 0 {
			return fmt.Errorf("--%s is %v: give a duration such as 1m", name, d)
		}
	}
	if slices.Equal(f.types, []string{noTypes}) {
		return nil
	}
	for _, t := range f.types {
		if !slices.Contains(files.Types(), t) {
			return fmt.Errorf("--upload-types %q is no type that is recognised%s; they are %s", t, cli.Meant(t, files.Types()), strings.Join(files.Types(), ", "))
		}
	}
	return nil
}

func (f *uploadFlags) options() front.Uploads {
	unless0 := func(b cli.ByteSize) int64 { // for the library 0 is the default and less is no limit
		if b == 0 {
			return -1
		}
		return int64(b)
	}
	types := f.types
	if slices.Equal(types, []string{noTypes}) {
		types = []string{}
	}
	return front.Uploads{
		MaxSize: int64(f.size), VisitorBytes: int64(f.visitor), VisitorFiles: f.visitorFiles, StaffBytes: int64(f.staff), SiteBytes: unless0(f.site),
		MinFree: unless0(f.free), Types: types, Pace: f.pace, MaxTime: f.time, Loose: f.unsent,
	}
}
