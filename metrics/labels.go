package metrics

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/internal/meter"
	"github.com/go-eddy/eddy/metrics/internal/expo"
)

// maxLabel is the longest label in bytes, a bound for tenants' names, which peers may have chosen.
const maxLabel = 64

// known holds the labels of a source that have series of their own. The first labels seen stay for good, because a counter
// must only grow and not come and go with the traffic.
type known struct {
	most int

	mu   sync.Mutex
	seen map[string]bool
}

// put emits closes by label. All labels without a series of their own count together.
func (k *known) put(scrape *expo.Scrape, f *expo.Family, source string, list map[string]map[eddy.CloseReason]uint64) {
	if k.most == 0 {
		return
	}
	sums := make(map[string]map[eddy.CloseReason]uint64, min(len(list), k.most+1))
	k.mu.Lock()
	for _, label := range slices.Sorted(maps.Keys(list)) {
		name := k.fold(label)
		if sums[name] == nil {
			sums[name] = make(map[eddy.CloseReason]uint64, len(list[label]))
		}
		for reason, n := range list[label] {
			sums[name][reason] += n
		}
	}
	k.mu.Unlock()
	for name, closed := range sums {
		for reason, n := range closed {
			scrape.Put(f, float64(n), source, name, reason.String())
		}
	}
}

// fold returns the label under which label is emitted: itself, cut to valid UTF-8, or meter.Other. k.mu is held.
func (k *known) fold(label string) string {
	label = strings.ToValidUTF8(label[:min(len(label), maxLabel)], "�")
	switch {
	case label == meter.Other, k.seen[label]:
		return label
	case len(k.seen) >= k.most:
		return meter.Other
	}
	if k.seen == nil {
		k.seen = make(map[string]bool)
	}
	k.seen[label] = true
	return label
}
