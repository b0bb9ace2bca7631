package operator

import (
	"net/http"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/metrics"
	"github.com/go-eddy/eddy/metrics/deskmetrics"
)

// numbers are the metrics of the operator's server. Without --admin they are nil; methods on nil do nothing.
type numbers struct {
	engine *metrics.Collector
	desk   *deskmetrics.Collector
}

func newNumbers() (*numbers, http.Handler, error) {
	n := &numbers{metrics.New(metrics.Options{}), deskmetrics.New()}
	h, err := metrics.Handler(metrics.HandlerOptions{Runtime: true}, n.engine, n.desk)
	return n, h, err
}

// add registers parts of the program.
func (n *numbers) add(sources ...metrics.Source) error {
	if n == nil {
		return nil
	}
	return n.engine.Register(sources...)
}

// server registers a server and its pools.
func (n *numbers) server(name string, srv *eddy.Server, pools []*executor.Pool) error {
	sources := []metrics.Source{metrics.Server(name, srv)}
	for _, p := range pools {
		sources = append(sources, metrics.Pool(p.Name(), p))
	}
	return n.add(sources...)
}

// watch registers a Desk.
func (n *numbers) watch(d *desk.Desk) error {
	if n == nil {
		return nil
	}
	return n.desk.Register("desk", d)
}
