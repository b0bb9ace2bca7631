module github.com/go-eddy/eddy/rpc/dubbo

go 1.26.0

require (
	github.com/apache/dubbo-go-hessian2 v1.12.5
	github.com/dubbogo/gost v1.13.1
	github.com/go-eddy/eddy v0.0.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/pkg/errors v0.9.1 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace github.com/go-eddy/eddy => ../..
