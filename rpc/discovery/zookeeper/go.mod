module github.com/go-eddy/eddy/rpc/discovery/zookeeper

go 1.26.0

replace github.com/go-eddy/eddy => ../../..

require github.com/go-zookeeper/zk v1.0.4

require github.com/go-eddy/eddy v0.0.0

require go.uber.org/goleak v1.3.0
