package httpserve

// LoopRequest is a request as a function on the loop sees it. The protocols fill it, and the types that they show have its
// layout, so one function serves all versions of HTTP.
type LoopRequest struct {
	MethodBytes, TargetBytes, WholeBody []byte
	Fields                              Fields
}

// Fields finds the value of the first field of a name, without regard to case.
type Fields interface {
	Field(name string) ([]byte, bool)
}

// LoopResponse collects the response of a function on the loop.
type LoopResponse struct {
	Status  int
	Closing bool // the connection ends after the response
	Fields  []Field
	Body    []byte
}

// Field is a header field as the function has named it. The protocol checks it.
type Field struct{ Name, Value string }

// Reset makes w the response that a function is given.
func (w *LoopResponse) Reset() {
	clear(w.Fields)
	*w = LoopResponse{Status: 200, Fields: w.Fields[:0], Body: w.Body[:0]}
}

// maxKept is the capacity in bytes up to which the memory of a response is reused, maxKeptFields that in fields.
const (
	maxKept       = 64 << 10
	maxKeptFields = 64
)

// Small reports whether the memory of w may be kept for another response.
func (w *LoopResponse) Small() bool { return cap(w.Body) <= maxKept && cap(w.Fields) <= maxKeptFields }
