package httpserve

import (
	"strconv"
	"time"

	"github.com/go-eddy/eddy/executor"
)

// RetryAfter returns the seconds for a Retry-After field of an answer to a request that p has refused: what an adaptive pool says, at least one.
func RetryAfter(p *executor.Pool) string {
	return strconv.FormatInt(max(int64((p.RetryAfter()+time.Second-1)/time.Second), 1), 10)
}
