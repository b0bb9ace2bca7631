package rpc

import (
	"encoding/binary"
	"iter"
)

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

// rawPairs are the pairs of a prefix as they travel: length and key, length and value, each.
type rawPairs struct {
	n int
	b []byte
}

// metadata returns copies of the pairs, nil for none.
func (r rawPairs) metadata() Metadata {
	if r.n == 0 {
		return nil
	}
	m := make(Metadata, r.n)
	b := r.b
	for i := range m {
		var key, value []byte
		key, b, _ = cutField(b)
		value, b, _ = cutField(b)
		m[i] = Pair{Key: string(key), Value: string(value)}
	}
	return m
}

// cutField cuts a field, which follows its length of 16 bits, off b.
func cutField(b []byte) (field, rest []byte, ok bool) {
	if len(b) < 2 {
		return nil, b, false
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	if len(b) < n {
		return nil, b, false
	}
	return b[2:n:n], b[n:], true
}
