package doctor

import (
	"fmt"

	"golang.org/x/sys/windows"
)

func (machine) Volume(dir string) (Volume, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return Volume{}, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return Volume{}, fmt.Errorf("GetDiskFreeSpaceEx %s: %w", dir, err)
	}
	return Volume{Free: free}, nil
}
