package benchdesk

import (
	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/cmd/eddy/internal/deskload"
)

// deskReport is the result as it is printed. Times are in milliseconds.
type deskReport struct {
	Customers int            `json:"customers"`
	Agents    int            `json:"agents"`
	Rate      *deskRate      `json:"rate,omitempty"`
	Full      *deskRate      `json:"full,omitempty"`
	Isolation *deskIsolation `json:"isolation,omitempty"`
	Idle      *deskIdle      `json:"idle,omitempty"`
	Reconnect *deskReconnect `json:"reconnect,omitempty"`
	Death     *deskDeath     `json:"death,omitempty"`
	Rolling   *deskRolling   `json:"rolling,omitempty"`
	Reads     *deskReads     `json:"reads,omitempty"`
	Failures  []string       `json:"failures,omitempty"` // errors of the parts that failed
}

type deskRate struct {
	What       string  `json:"what"`
	Messages   int64   `json:"messages"`
	PerSecond  float64 `json:"per_second"`
	AckP50     float64 `json:"ack_p50_ms"`
	AckP99     float64 `json:"ack_p99_ms"`
	AckP999    float64 `json:"ack_p99.9_ms"`
	PeerP50    float64 `json:"peer_p50_ms"`
	PeerP99    float64 `json:"peer_p99_ms"`
	PeerP999   float64 `json:"peer_p99.9_ms"`
	CPU        float64 `json:"server_cpu_us_per_message"`
	Refused    int64   `json:"refused"`
	FirstError string  `json:"first_error,omitempty"`

	Cost *deskCost `json:"cost,omitempty"` // of rate and full
}

// deskIsolation compares what customers and agents feel while the agents' pool is free and while operations that hang
// fill it. The two halves take turns, so that other work of the machine meets both.
type deskIsolation struct {
	Undisturbed deskRate `json:"undisturbed"`
	Hanging     deskRate `json:"hanging"`
	Delta       float64  `json:"median_ack_p99_delta_ms"` // between the medians of the turns' 99th percentiles
}

type deskIdle struct {
	Visitors int     `json:"visitors"`
	Bytes    float64 `json:"bytes_per_visitor"`
}

type deskReconnect struct {
	deskResumed
	Started float64 `json:"server_started_ms"` // from the kill until the server listened again
}

// deskResumed is how all clients have resumed. Times count from when the last server listened again.
type deskResumed struct {
	Visitors int             `json:"visitors"`
	Seconds  float64         `json:"all_resumed_s"`  // until every message was acknowledged and shown to both sides
	P50      float64         `json:"welcomed_p50_s"` // until a client was welcomed
	P99      float64         `json:"welcomed_p99_s"`
	Connects int64           `json:"connects"` // attempts of all clients
	Faults   deskload.Faults `json:"faults"`
}

// measured reports whether there is anything in the report.
func (d *deskReport) measured() bool {
	return d.Rate != nil || d.Full != nil || d.Isolation != nil || d.Idle != nil || d.Reconnect != nil || d.Death != nil || d.Rolling != nil || d.Reads != nil
}

// add merges another turn of the same measurement, except for the percentiles.
func (r *deskRate) add(other *deskRate) {
	messages := r.Messages + other.Messages
	r.CPU = (r.CPU*float64(r.Messages) + other.CPU*float64(other.Messages)) / float64(max(messages, 1))
	r.PerSecond = (r.PerSecond*float64(r.Messages) + other.PerSecond*float64(other.Messages)) / float64(max(messages, 1))
	r.Messages = messages
	r.Refused += other.Refused
}

func (r *deskRate) percentiles(acks, peers *hdrhistogram.Histogram) {
	ms := func(h *hdrhistogram.Histogram, p float64) float64 { return float64(h.ValueAtPercentile(p)) / 1e6 }
	r.AckP50, r.AckP99, r.AckP999 = ms(acks, 50), ms(acks, 99), ms(acks, 99.9)
	r.PeerP50, r.PeerP99, r.PeerP999 = ms(peers, 50), ms(peers, 99), ms(peers, 99.9)
}

func (d deskReport) print(t *cli.Terminal) {
	t.Say("desk: %d customers, %d agents", d.Customers, d.Agents)
	rate := func(r deskRate) {
		t.Say("%s: %d messages, %.0f/s", r.What, r.Messages, r.PerSecond)
		t.Say("  send to ack   p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms", r.AckP50, r.AckP99, r.AckP999)
		t.Say("  send to peer  p50 %.2f ms, p99 %.2f ms, p99.9 %.2f ms", r.PeerP50, r.PeerP99, r.PeerP999)
		t.Say("  server        %.0f µs of processor time per message, %d refused", r.CPU, r.Refused)
		if r.Refused > 0 {
			t.Say("  first error   %s", r.FirstError)
		}
		r.Cost.print(t)
	}
	for _, r := range []*deskRate{d.Rate, d.Full} {
		if r != nil {
			rate(*r)
		}
	}
	if i := d.Isolation; i != nil {
		rate(i.Undisturbed)
		rate(i.Hanging)
		t.Say("isolation: the 99th percentile of acknowledgements differs by %.2f ms, medians of %d turns", i.Delta, isolationTurns)
	}
	if d.Idle != nil {
		t.Say("idle: %d visitors, %.1f KiB of resident memory each", d.Idle.Visitors, d.Idle.Bytes/1024)
	}
	if r := d.Reads; r != nil {
		t.Say("reads: %d chats of a year, %d messages; load average of the machine %s", r.Chats, r.Messages, r.Load)
		for _, one := range r.Reads {
			t.Say("  %-52s p50 %7.2f ms, p99 %7.2f ms, %d rows", one.What, one.P50, one.P99, one.Rows)
		}
	}
	if r := d.Reconnect; r != nil {
		t.Say("reconnect: %d visitors; the server listened again after %.0f ms, all had resumed %.1f s after that", r.Visitors, r.Started, r.Seconds)
		r.deskResumed.print(t)
	}
	if d.Death != nil {
		d.Death.print(t)
	}
	if d.Rolling != nil {
		d.Rolling.print(t)
	}
}

func (r deskResumed) print(t *cli.Terminal) {
	t.Say("  welcomed      p50 %.1f s, p99 %.1f s, %d connects", r.P50, r.P99, r.Connects)
	printFaults(t, r.Faults)
}

func printFaults(t *cli.Terminal, f deskload.Faults) {
	t.Say("  messages      lost %d, shown twice %d, out of order %d, events again %d", f.Lost, f.Doubled, f.Disordered, f.Replayed)
	t.Say("  commands      refused %d, told to come later %d; %d gaps fetched", f.Refused, f.Busy, f.Gaps)
	if f.FirstError != "" {
		t.Say("  first error   %s", f.FirstError)
	}
}
