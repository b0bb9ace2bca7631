package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// report is what "eddy bench desk --json" prints, as far as a model needs it.
type report struct {
	Rate *rate `json:"rate"`
	Full *rate `json:"full"`
	Idle *struct {
		Bytes float64 `json:"bytes_per_visitor"`
	} `json:"idle"`
}

type rate struct {
	PerSecond float64 `json:"per_second"`
	CPU       float64 `json:"server_cpu_us_per_message"`
	Cost      *struct {
		Servers     int     `json:"servers"`
		Commits     float64 `json:"commits_per_message"`
		BusMessages float64 `json:"bus_messages_per_message"`
		BusBytes    float64 `json:"bus_bytes_per_message"`
		Database    *struct {
			CPU   float64 `json:"cpu_us"`
			Bytes float64 `json:"bytes"`
			WAL   float64 `json:"wal_bytes"`
			Syncs float64 `json:"wal_syncs"`
		} `json:"database"`
	} `json:"cost"`
}

// Read reads points from what runs of "eddy bench desk --json" with --store have printed, one after the other.
func Read(r io.Reader) (m Measured, err error) {
	for d := json.NewDecoder(r); ; {
		var one report
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return m, fmt.Errorf("plan: what was measured is not JSON of \"eddy bench desk --json\": %w", err)
		}
		if one.Idle != nil {
			m.Idle = one.Idle.Bytes
		}
		for _, r := range []*rate{one.Rate, one.Full} {
			if r == nil {
				continue
			}
			c := r.Cost
			if c == nil || c.Database == nil {
				return m, errors.New("plan: a run does not say what its messages have cost the database: measure with --store")
			}
			m.Points = append(m.Points, Point{
				Servers: c.Servers, PerSecond: r.PerSecond, Full: r == one.Full, Commits: c.Commits, ServerCPU: r.CPU,
				DatabaseCPU: c.Database.CPU, Grown: c.Database.Bytes, WAL: c.Database.WAL, Syncs: c.Database.Syncs, BusMessages: c.BusMessages, BusBytes: c.BusBytes,
			})
		}
	}
	if len(m.Points) == 0 {
		return m, errors.New("plan: there are no points: measure with --only rate,full")
	}
	return m, nil
}
