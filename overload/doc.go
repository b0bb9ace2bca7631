// Package overload keeps a server that has too much to do alive, and gives up what matters least for it. A manager reads how near the
// program is to its limits: memory, descriptors, processors, the lag of the loops, the age of what waits for pools. It acts by
// how near that is, and undoes what it has done when there is room again.
//
//	srv := &eddy.Server{Init: site.Init, Pools: []*executor.Pool{pool}}
//	err := srv.Listen("tcp", ":8080")
//	manager, err := overload.New(overload.Options{Servers: []*eddy.Server{srv}})
//
// From there on it works by itself and ends with its servers. What it does, and from which pressure on, is in docs/overload.md.
package overload
