package store

import "github.com/go-eddy/eddy/trace"

// Traced is a command that belongs to a sampled trace, as its rows in the outbox then do.
type Traced struct {
	Command
	Trace   string         // traceparent
	Request *trace.Request // it is in the stage trace.Handler from when the command is executed; nil = nobody is told
}

// Trace returns a command of a sampled request. A command of another request, or of none, stays as it is.
func Trace(cmd Command, r *trace.Request) Command {
	if !r.Sampled() {
		return cmd
	}
	self := r.Self()
	return Traced{cmd, self.Traceparent(), r}
}
