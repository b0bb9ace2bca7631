// Command full is the command eddy with every registry and protocol that "eddy serve rpc --config" can name: ZooKeeper, etcd, Nacos and the dubbo protocol.
// It is a module of its own, so that the command eddy does not have their libraries in its graph.
//
//	$ cd cmd/eddy/full && go build -o eddy .
//	$ ./eddy serve rpc --config application.yaml
package main

import (
	"github.com/go-eddy/eddy/cmd/eddy/internal/root"
	"github.com/go-eddy/eddy/rpc"
	"github.com/go-eddy/eddy/rpc/config"
	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/etcd"
	"github.com/go-eddy/eddy/rpc/discovery/nacos"
	"github.com/go-eddy/eddy/rpc/discovery/zookeeper"
	"github.com/go-eddy/eddy/rpc/dubbo"
)

func main() { serve() }

// serve is the whole program, for tests, too.
func serve() {
	root.MainWith(config.Engines{
		Registries: []discovery.Engine{zookeeper.Engine(), etcd.Engine(), nacos.Engine()},
		Wires:      []rpc.Wire{dubbo.Wire()},
	})
}
