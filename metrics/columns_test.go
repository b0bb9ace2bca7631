package metrics

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/metrics/internal/expo"
)

// numbered fills the numbers of a snapshot with values that differ, so that a column that reads another's field is seen.
func numbered[S any](t *testing.T) (s S) {
	t.Helper()
	n := 0
	var fill func(reflect.Value)
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			f := v.Field(i)
			n++
			switch f.Kind() {
			case reflect.Int, reflect.Int64:
				if f.SetInt(int64(n)); f.Type() == reflect.TypeFor[time.Duration]() {
					f.SetInt(int64(n) * int64(time.Second))
				}
			case reflect.Uint64:
				f.SetUint(uint64(n))
			case reflect.Float64:
				f.SetFloat(float64(n))
			case reflect.Struct:
				fill(f)
			}
		}
	}
	fill(reflect.ValueOf(&s).Elem())
	return s
}

// ownFields fails when two columns of a table, switches left out, read the same field.
func ownFields[S any](t *testing.T, table expo.Table[S]) {
	t.Helper()
	s, by := numbered[S](t), map[float64]string{}
	for _, c := range table {
		v := c.Value(&s)
		switch {
		case v == 0: // a switch, or a field of another type
		case by[v] != "":
			t.Errorf("%s and %s read the same field", by[v], c.Name)
		}
		by[v] = c.Name
	}
	if len(by) < 2 {
		t.Error("no numbers")
	}
}

// TestColumnsReadTheirOwnFields: no two metrics tell the same number.
func TestColumnsReadTheirOwnFields(t *testing.T) {
	ownFields(t, loopTable)
	ownFields(t, serverTable)
	ownFields(t, dialerTable)
	ownFields(t, poolTable)
	ownFields(t, keyedTable)
	ownFields(t, laneTable)
	ownFields(t, spillTable)
	ownFields(t, httpTable)
	ownFields(t, transportTable)
	ownFields(t, tlsTable)
	ownFields(t, classTable)
	ownFields(t, hubTable)
	ownFields(t, compressionTable)
	ownFields(t, serviceTable)
	ownFields(t, eventTable)
	ownFields(t, clientTable)
}

// snapshot is a server with the given numbers.
type snapshot struct{ st eddy.Stats }

func (s *snapshot) Stats() eddy.Stats { return s.st }

// TestLoopNumbers: what R196 to R202 ask for is exposed with the loop's own numbers.
func TestLoopNumbers(t *testing.T) {
	srv := &snapshot{eddy.Stats{Loops: []eddy.LoopStats{{
		Name: "l", Active: 3, Events: 4, BytesIn: 5, BytesOut: 6, WriteInterest: 7, OutboundBytes: 8, TaskQueueDepth: 9, Deadlines: 10, DroppedOldest: 11,
		Superseded: 12, DroppedNewest: 13, Stalls: 14, Busy: 1500 * time.Millisecond, Utilisation: 0.25,
		Lag: eddy.Lag{Ticks: 9, P50: time.Millisecond, P95: 2 * time.Millisecond, P99: 3 * time.Millisecond, Max: 4 * time.Millisecond},
	}}}}
	want := samples{}
	for name, v := range map[string]float64{
		"eddy_loop_connections": 3, "eddy_loop_events_total": 4, "eddy_loop_received_bytes_total": 5, "eddy_loop_sent_bytes_total": 6,
		"eddy_loop_write_interest_connections": 7, "eddy_loop_outbound_queued_bytes": 8, "eddy_loop_tasks_queued": 9, "eddy_loop_deadlines": 10,
		"eddy_loop_stalls_total": 14, "eddy_loop_busy_seconds_total": 1.5, "eddy_loop_utilisation_ratio": 0.25, "eddy_loop_healthy": 0,
	} {
		want[name+`{group="s",loop="l"}`] = v
	}
	for percentile, v := range map[string]float64{"50": 0.001, "95": 0.002, "99": 0.003, "100": 0.004} {
		want[`eddy_loop_lag_seconds{group="s",loop="l",percentile="`+percentile+`"}`] = v
	}
	for dropped, v := range map[string]float64{"oldest": 11, "superseded": 12, "newest": 13} {
		want[`eddy_loop_dropped_messages_total{dropped="`+dropped+`",group="s",loop="l"}`] = v
	}
	scrape(t, collecting(t, Server("s", srv))).want(t, want)
}
