package keep

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
)

// Settle is how long a watch pauses after it has told, so that entries that flap cost a bounded number of reads.
const Settle = 100 * time.Millisecond

// Teller tells the receiver of a watch what is in a registry, when it has changed. One goroutine uses a Teller.
type Teller struct {
	Service discovery.Service
	Log     *slog.Logger
	To      func([]discovery.Instance)

	last  []discovery.Instance
	told  bool
	noted string
}

// Entry is one entry of a registry, as it was understood.
type Entry struct {
	Instance discovery.Instance
	Other    bool  // it is of another service
	Err      error // it does not parse
}

// Tell tells the instances of the entries, if they are others than before. What does not parse is left out. If nothing else is there, Tell returns an error
// instead, because an empty answer would say that the registry knows no instance.
func (t *Teller) Tell(entries []Entry) error {
	var (
		list  []discovery.Instance
		bad   int
		first error
	)
	for _, e := range entries {
		if e.Err == nil && !e.Other {
			e.Err = e.Instance.Check()
		}
		switch {
		case e.Err != nil:
			bad++
			first = cmp.Or(first, e.Err)
		case !e.Other:
			list = append(list, e.Instance)
		}
	}
	list = unique(list)
	note := ""
	if bad > 0 {
		note = fmt.Sprintf("%d of %d entries do not parse, such as: %v", bad, len(entries), first)
	}
	if len(list) > discovery.MaxInstances {
		note = fmt.Sprintf("%d instances, limit %d: the others are left out", len(list), discovery.MaxInstances)
		list = list[:discovery.MaxInstances:discovery.MaxInstances]
	}
	t.note(note)
	if bad > 0 && len(list) == 0 {
		return fmt.Errorf("discovery: %v: %s", t.Service, note)
	}
	if t.told && slices.EqualFunc(t.last, list, same) {
		return nil
	}
	t.last, t.told = list, true
	t.To(slices.Clone(list))
	return nil
}

// note logs what is wrong with an answer when it is something else than before.
func (t *Teller) note(text string) {
	if text != t.noted && text != "" {
		t.Log.Warn("odd answer", "service", t.Service.String(), "err", text)
	}
	t.noted = text
}

// unique sorts the instances by address and keeps the latest of each.
func unique(list []discovery.Instance) []discovery.Instance {
	slices.SortStableFunc(list, func(a, b discovery.Instance) int {
		return cmp.Or(cmp.Compare(a.Addr, b.Addr), b.Since.Compare(a.Since))
	})
	return slices.CompactFunc(list, func(a, b discovery.Instance) bool { return a.Addr == b.Addr })
}

func same(a, b discovery.Instance) bool {
	return a.Addr == b.Addr && a.Weight == b.Weight && a.Zone == b.Zone && a.Since.Equal(b.Since) && maps.Equal(a.Attributes, b.Attributes)
}

// Speaks reports whether something that speaks have is what a service of the protocol want looks for. tri is Dubbo's word for gRPC.
func Speaks(want, have string) bool {
	grpc := func(p string) bool { return p == "grpc" || p == "tri" }
	return want == "" || want == have || grpc(want) && grpc(have)
}
