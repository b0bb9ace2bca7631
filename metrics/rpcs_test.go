package metrics

import (
	"testing"

	"github.com/go-eddy/eddy/codec/frame"
	"github.com/go-eddy/eddy/rpc"
)

// canned is an RPC server whose numbers are known.
type canned rpc.ServerStats

func (c *canned) Stats() rpc.ServerStats { return rpc.ServerStats(*c) }

// TestAnswersByStatus: each port has a series for each status.
func TestAnswersByStatus(t *testing.T) {
	s := scrape(t, collecting(t, RPCServer("api", &canned{Ports: map[string]rpc.PortStats{
		"in":  {Answers: map[frame.Status]uint64{frame.StatusOK: 7, frame.StatusBusy: 3, frame.StatusCancelled: 0}},
		"out": {Answers: map[frame.Status]uint64{frame.StatusProtocolError: 1}},
	}})))
	s.want(t, samples{
		`eddy_rpc_server_answers_total{side="api/in",status="OK"}`:              7,
		`eddy_rpc_server_answers_total{side="api/in",status="BUSY"}`:            3,
		`eddy_rpc_server_answers_total{side="api/in",status="CANCELLED"}`:       0,
		`eddy_rpc_server_answers_total{side="api/out",status="PROTOCOL_ERROR"}`: 1,
	})
	if n := s.starts("eddy_rpc_server_answers_total"); n != 4 {
		t.Errorf("%d series, want 4", n)
	}
}
