package http2

import (
	"slices"

	"golang.org/x/net/http2/hpack"
)

// sections remembers how header sections were encoded that come again and again: their first fields, as long as these are in
// a table of HPACK already. Encoding such fields changes no table, so the same bytes say the same next time.
type sections struct {
	known [4]section
	next  int // is replaced next
}

type section struct {
	list  []hpack.HeaderField
	block []byte
}

// leastKnown is the number of fields from which remembering pays.
const leastKnown = 2

// find returns the beginning of list that is remembered, nil for none.
func (s *sections) find(list []hpack.HeaderField) *section {
	for i := range s.known {
		k := &s.known[i]
		if n := len(k.list); n > 0 && n <= len(list) && slices.Equal(k.list, list[:n]) {
			return k
		}
	}
	return nil
}

// remember keeps a copy of a beginning.
func (s *sections) remember(list []hpack.HeaderField, block []byte) {
	k := &s.known[s.next]
	s.next = (s.next + 1) % len(s.known)
	k.list, k.block = append(k.list[:0], list...), append(k.block[:0], block...)
}

// forget drops everything, because the table has changed.
func (s *sections) forget() {
	for i := range s.known {
		s.known[i].list = s.known[i].list[:0]
	}
}

// encode puts a header section into o.block.
func (o *sender) encode(list []hpack.HeaderField) {
	o.block.Reset()
	var known *section
	if o.sections != nil {
		known = o.sections.find(list)
	}
	if known != nil {
		o.block.Write(known.block)
		list = list[len(known.list):]
	}
	indexed, size, changed := 0, 0, false // fields at the beginning, and their bytes
	for i, f := range list {
		at := o.block.Len()
		_ = o.enc.WriteField(f) // into memory, which never fails
		if o.sections == nil {
			continue
		}
		switch first := o.block.Bytes()[at]; {
		case first&0x80 != 0: // RFC 7541 section 6.1: in a table
			if indexed == i {
				indexed, size = i+1, o.block.Len()
			}
		case first&0xc0 == 0x40, first&0xe0 == 0x20: // sections 6.2.1 and 6.3: changes the table
			o.sections.forget()
			changed = true
		}
	}
	if o.sections != nil && known == nil && !changed && indexed >= leastKnown {
		o.sections.remember(list[:indexed], o.block.Bytes()[:size])
	}
}

// resizeTable bounds the table of HPACK, as the other side asks.
func (o *sender) resizeTable(size uint32) {
	o.enc.SetMaxDynamicTableSize(size)
	if o.sections != nil {
		o.sections.forget()
	}
}
