package trace

// Stage is a part of a request's time.
type Stage uint8

// The stages, in the order in which most requests go through them. A request that passes several pools has a stage more than
// once.
const (
	LoopWait  Stage = iota // input that the loop had noticed waited for the loop to come to it
	Dispatch               // the loop had the request: decoding, and waiting for its body or its turn
	QueueWait              // in the queue of a pool, until a worker began
	Handler                // the handler ran
	Hop                    // on the way back to the loop, or waiting there for earlier answers
	Write                  // queued for the client, until the kernel has taken all of it
	stages
)

var stageNames = [stages]string{"loop wait", "dispatch", "queue wait", "handler", "hop", "write"}

// String returns the stage's name.
func (s Stage) String() string {
	if s >= stages {
		return "unknown"
	}
	return stageNames[s]
}

// Stages returns all stages, in their order.
func Stages() []Stage {
	return []Stage{LoopWait, Dispatch, QueueWait, Handler, Hop, Write}
}
