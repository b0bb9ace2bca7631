package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"
)

const (
	leastDisk = 256 << 20 // a Desk below it does not get through a day of files
	goodDisk  = 2 << 30

	slowSync = 200 * time.Millisecond // a message is acknowledged after one sync
)

// data checks the directory in which a Desk keeps everything.
func (e *exam) data() []Finding {
	const check = "data"
	if e.DataDir == "" {
		return one(check, Skip, "not asked: --data DIR examines the directory of a Desk")
	}
	dir, created, f := e.dataPlace(check)
	if f != nil {
		return []Finding{*f}
	}
	trial, err := e.TryDir(dir)
	if err != nil {
		return one(check, Fail, fmt.Sprintf("%s cannot be written: %v", dir, err), own(dir)...)
	}
	verdict, found := OK, fmt.Sprintf("%s can be written and locked, a sync takes %s", dir, trial.Sync.Round(10*time.Microsecond))
	if created {
		found = fmt.Sprintf("%s does not exist and can be made; a sync takes %s", e.DataDir, trial.Sync.Round(10*time.Microsecond))
	}
	if trial.LockFree {
		return one(check, Fail, dir+" gives the same lock twice: two programs would write to one database", Step{"choose", "a directory on a disk of this machine"})
	}
	if trial.Sync > slowSync {
		verdict = Warn
		found += ", which every message waits for"
	}
	f = &Finding{check, verdict, found, nil}
	if info, err := e.Stat(dir); err == nil && !created && e.OS() != "windows" && info.Mode().Perm()&0o077 != 0 {
		f.Verdict = Warn
		f.Found += fmt.Sprintf("; mode %04o lets others on this machine look into it, and it holds what customers wrote", info.Mode().Perm())
		f.Remedy = []Step{{"as its owner", "chmod 700 " + dir}}
	}
	v, err := e.Volume(dir)
	if err != nil {
		return []Finding{*f}
	}
	return []Finding{*f, volume(v)}
}

// volume judges the file system that the directory lies on.
func volume(v Volume) Finding {
	space := Finding{"data disk", OK, size(v.Free) + " free", nil}
	if v.Type != "" {
		space.Found += " on " + v.Type
	}
	switch {
	case v.Free < leastDisk:
		space.Verdict = Fail
		space.Found += fmt.Sprintf(", %s are the least", size(leastDisk))
	case v.Free < goodDisk:
		space.Verdict = Warn
		space.Found += fmt.Sprintf(", below %s", size(goodDisk))
	}
	if trouble := map[string]string{
		"nfs": "SQLite does not keep its promises on a network", "cifs": "SQLite does not keep its promises on a network",
		"smb2": "SQLite does not keep its promises on a network", "9p": "SQLite does not keep its promises on a network",
		"tmpfs": "it is memory: all is lost when the machine stops", "overlayfs": "it is the container's own layer: all is lost with the container",
	}[v.Type]; trouble != "" {
		space.Verdict = worse(space.Verdict, Warn)
		space.Found += ": " + trouble
		space.Remedy = []Step{{"choose", "a directory on a disk of this machine, or a volume"}}
	}
	return space
}

// dataPlace returns the directory to try: the one that was named, or the nearest above it that exists. f says what is
// wrong with it.
func (e *exam) dataPlace(check string) (dir string, created bool, f *Finding) {
	dir = filepath.Clean(e.DataDir)
	for {
		info, err := e.Stat(dir)
		switch {
		case err == nil && info.IsDir():
			return dir, created, nil
		case err == nil:
			return "", false, &Finding{check, Fail, dir + " is a file", []Step{{"choose", "a directory"}}}
		case !errors.Is(err, fs.ErrNotExist):
			return "", false, &Finding{check, Fail, fmt.Sprintf("%s: %v", dir, err), own(dir)}
		case filepath.Dir(dir) == dir:
			return "", false, &Finding{check, Fail, e.DataDir + " does not exist, nor anything above it", nil}
		}
		dir, created = filepath.Dir(dir), true
	}
}

// own returns ways to give a directory to the user of the program.
func own(dir string) []Step {
	return []Step{
		{"in the systemd unit", "StateDirectory=eddy-desk"},
		asRoot("chown -R USER " + dir),
	}
}
