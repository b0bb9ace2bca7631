package cli

import (
	"fmt"

	"github.com/go-eddy/eddy/internal/bytesize"
)

// ByteSize is a flag with a number of bytes, written as 512KiB, 20MiB, 10GiB or plainly.
type ByteSize int64

// Set implements pflag.Value.
func (b *ByteSize) Set(s string) error {
	n, err := bytesize.Parse(s)
	if err == nil {
		*b = ByteSize(n)
	}
	return err
}

func (b *ByteSize) String() string { return bytesize.Format(int64(*b)) }

// Type implements pflag.Value.
func (*ByteSize) Type() string { return "size" }

// Size prints a number of bytes for people.
func Size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d bytes", n)
	}
	v, i := float64(n)/unit, 0
	for v >= unit && i < 3 {
		v, i = v/unit, i+1
	}
	return fmt.Sprintf("%.1f %s", v, []string{"KiB", "MiB", "GiB", "TiB"}[i])
}
