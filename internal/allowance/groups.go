package allowance

import (
	"path"
	"strings"
)

// Group is a Linux control group of this process, with the groups above it up to the mount.
type Group struct {
	Version int
	Dirs    []string // the directories of their files, from the process upwards
}

// Groups returns the groups of a controller, in the layouts of version 1 and version 2. A machine can have both
// mounted, with the controller in one of them.
func (f Files) Groups(controller string) []Group {
	member, err1 := f("/proc/self/cgroup")
	mounts, err2 := f("/proc/self/mountinfo")
	if err1 != nil || err2 != nil {
		return nil
	}
	var all []Group
	for line := range strings.Lines(string(mounts)) {
		m, ok := parseMount(line)
		if !ok {
			continue
		}
		version := 1
		if m.kind == "cgroup2" {
			version = 2
		} else if m.kind != "cgroup" || !hasWord(m.options, controller) {
			continue
		}
		if at, ok := membership(string(member), version, controller); ok {
			all = append(all, Group{version, m.dirs(at)})
		}
	}
	return all
}

// mount is a line of mountinfo (proc_pid_mountinfo(5)).
type mount struct{ root, at, kind, options string }

func parseMount(line string) (mount, bool) {
	head, tail, ok := strings.Cut(line, " - ")
	h, t := strings.Fields(head), strings.Fields(tail)
	if !ok || len(h) < 5 || len(t) < 3 {
		return mount{}, false
	}
	return mount{root: h[3], at: h[4], kind: t[0], options: t[2]}, true
}

// dirs returns the directories of a group and of those above it. A container may see itself under a path of its host,
// of which only the part below the mount's root is mounted.
func (m mount) dirs(group string) []string {
	below := ""
	if m.root == "/" {
		below = group
	} else if rest, ok := strings.CutPrefix(group, m.root); ok {
		below = rest
	}
	var dirs []string
	for at := path.Clean("/" + below); ; at = path.Dir(at) {
		dirs = append(dirs, path.Join(m.at, at))
		if at == "/" {
			return dirs
		}
	}
}

// membership returns the group of this process in a hierarchy, from the text of /proc/self/cgroup.
func membership(text string, version int, controller string) (string, bool) {
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		if version == 2 && parts[0] == "0" && parts[1] == "" || version == 1 && hasWord(parts[1], controller) {
			return parts[2], true
		}
	}
	return "", false
}

// hasWord reports whether a comma-separated list has a word.
func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
