package allowance

import (
	"fmt"
	"path"
	"strconv"
	"strings"
)

// Processors returns the lowest quota of the control groups in processors, and the file that has it; 0 and "" without one.
func (f Files) Processors() (quota float64, file string) {
	for _, g := range f.Groups("cpu") {
		for _, dir := range g.Dirs {
			q, name := f.quotaV2(dir)
			if g.Version == 1 {
				q, name = f.quotaV1(dir)
			}
			if q > 0 && (file == "" || q < quota) {
				quota, file = q, path.Join(dir, name)
			}
		}
	}
	return quota, file
}

func (f Files) quotaV2(dir string) (float64, string) {
	const file = "cpu.max"
	text, err := f(path.Join(dir, file))
	if err != nil {
		return 0, file
	}
	var quota, period float64
	if _, err := fmt.Sscan(string(text), &quota, &period); err != nil || period <= 0 { // "max 100000" is none
		return 0, file
	}
	return quota / period, file
}

func (f Files) quotaV1(dir string) (float64, string) {
	const file = "cpu.cfs_quota_us"
	text, err := f(path.Join(dir, file))
	if err != nil {
		return 0, file
	}
	quota, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64) // -1 is none
	if err != nil || quota <= 0 {
		return 0, file
	}
	period, err := f.Number(path.Join(dir, "cpu.cfs_period_us"))
	if err != nil || period == 0 {
		return 0, file
	}
	return quota / float64(period), file
}
