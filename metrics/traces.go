package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/go-eddy/eddy/metrics/internal/expo"
	"github.com/go-eddy/eddy/trace"
)

type traceStats = trace.Stats

//nolint:gochecknoglobals // tables, never written
var (
	traceTable = expo.Table[traceStats]{
		expo.Count("eddy_trace_sampled_total", "Requests that were recorded.", func(s *traceStats) uint64 { return s.Sampled }),
		expo.Count("eddy_trace_unsampled_total", "Requests that were not.", func(s *traceStats) uint64 { return s.Unsampled }),
		expo.Count("eddy_trace_received_total", "Requests that continue the trace of a trusted client.", func(s *traceStats) uint64 { return s.Received }),
		expo.Count("eddy_trace_untrusted_total", "Requests whose trace fields were ignored because the listener trusts nobody.", func(s *traceStats) uint64 { return s.Untrusted }),
		expo.Count("eddy_trace_malformed_total", "Values of trusted clients ignored because they do not parse.", func(s *traceStats) uint64 { return s.Malformed }),
		expo.Count("eddy_trace_oversized_total", "Values of trusted clients ignored because they are over a limit.", func(s *traceStats) uint64 { return s.Oversized }),
		expo.Count("eddy_trace_crowded_total", "Stages not recorded because a request had too many.", func(s *traceStats) uint64 { return s.Crowded }),
	}.With("recorder")
	traceStage = expo.Histogram("eddy_trace_stage_seconds", "Time of a stage of a sampled request; exemplars name the trace.", "recorder", "stage")
	traceWhole = expo.Histogram("eddy_trace_request_seconds", "Time of a sampled request; exemplars name the trace.", "recorder")
)

func traceFamilies() []*expo.Family { return append(traceTable.Families(), traceStage, traceWhole) }

// Traces returns a Source of the numbers of a trace.Recorder: counts, and histograms of its stages, whose exemplars name the
// latest trace of each bucket. Scrapes show exemplars in the OpenMetrics format.
func Traces(name string, rec *trace.Recorder) Source {
	return source("recorder", name, rec, func(_ *memory, scrape *expo.Scrape, st *traceStats) {
		traceTable.Put(scrape, st, name)
		for _, t := range rec.Times() {
			putTimes(scrape, name, &t)
		}
	})
}

// putTimes emits a histogram of a Recorder.
func putTimes(scrape *expo.Scrape, name string, t *trace.Times) {
	upto := make(map[float64]uint64, len(t.Buckets))
	var exemplars []prometheus.Exemplar
	for i, b := range t.Buckets {
		if i < len(t.Buckets)-1 {
			upto[b.Bound] = b.Count
		}
		if b.Last != (trace.Exemplar{}) {
			exemplars = append(exemplars, prometheus.Exemplar{
				Value: b.Last.Value, Timestamp: b.Last.At, Labels: prometheus.Labels{"trace_id": b.Last.Trace.String()},
			})
		}
	}
	if t.All {
		scrape.PutExemplars(traceWhole, t.Count, t.Sum, upto, exemplars, name)
		return
	}
	scrape.PutExemplars(traceStage, t.Count, t.Sum, upto, exemplars, name, t.Stage.String())
}
