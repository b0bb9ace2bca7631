package rpc

import (
	"context"
	"iter"

	"github.com/go-eddy/eddy/limit"
	"github.com/go-eddy/eddy/rpc/internal/payload"
)

// MaxPrefix is the longest prefix of a request: 16 KiB. The package documentation has its fields.
const MaxPrefix = payload.MaxPrefix

// Metadata is what travels with a call beside its body: pairs in the order in which they were added. A key may come more
// than once. All pairs share the 16 KiB of the prefix with the names of service and method.
type Metadata []Pair

// Pair is one entry of Metadata.
type Pair struct{ Key, Value string }

// Get returns the first value of a key, false if there is none.
func (m Metadata) Get(key string) (value string, ok bool) {
	for _, p := range m {
		if p.Key == key {
			return p.Value, true
		}
	}
	return "", false
}

// Values yields the values of a key, in order.
func (m Metadata) Values(key string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range m {
			if p.Key == key && !yield(p.Value) {
				return
			}
		}
	}
}

// withClass adds the class of the request that a call is made for, unless the call says one or nobody has said that it is not Critical.
func withClass(ctx context.Context, m Metadata) Metadata {
	c, _ := limit.FromContext(ctx)
	if c == limit.Critical {
		return m
	}
	if _, said := m.Get(limit.Field); said {
		return m
	}
	return append(m[:len(m):len(m)], Pair{limit.Field, c.String()})
}

// metadataOf returns copies of the pairs of a prefix, nil for none.
func metadataOf(pairs payload.Pairs) Metadata {
	if pairs.Len() == 0 {
		return nil
	}
	m := make(Metadata, 0, pairs.Len())
	for key, value := range pairs.All() {
		m = append(m, Pair{Key: string(key), Value: string(value)})
	}
	return m
}
