module github.com/go-eddy/eddy/bench

go 1.26.0

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/go-eddy/eddy v0.0.0
	golang.org/x/sys v0.49.0
)

replace github.com/go-eddy/eddy => ../
