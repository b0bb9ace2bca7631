package trace

// Caller is a [Tracer] that makes spans of requests to other services, too. Any goroutine may call it, loops included, so it
// must not block.
type Caller interface {
	// BeginCall begins the span of a request to a service at a host, below a trace. It returns what the request takes along, and
	// what ends the span with the outcome.
	BeginCall(below Parent, name, host string) (Parent, func(error))
}

// Call begins a request to another service that belongs to a trace, as a traceparent says. It returns the traceparent that
// goes along, and what ends the request with its outcome. Without a Caller, and on nil, the traceparent goes along as it is.
func (rec *Recorder) Call(traceparent, name, host string) (string, func(error)) {
	if rec != nil {
		caller, ok := rec.o.Tracer.(Caller)
		below, wrong := (&Fields{Traceparent: traceparent}).parse()
		if ok && len(wrong) == 0 {
			self, end := caller.BeginCall(below, name, host)
			return self.Traceparent(), end
		}
	}
	return traceparent, func(error) {}
}
