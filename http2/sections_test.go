package http2

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// TestSections: the other side decodes what was given, whatever was remembered, and a section that comes again is encoded
// without the table.
func TestSections(t *testing.T) {
	var o sender
	o.init()
	o.sections = new(sections)
	var got []hpack.HeaderField
	dec := hpack.NewDecoder(maxTable, func(f hpack.HeaderField) { got = append(got, f) })
	remembered := 0
	send := func(list []hpack.HeaderField) {
		t.Helper()
		if o.sections.find(list) != nil {
			remembered++
		}
		o.encode(list)
		got = got[:0]
		if _, err := dec.Write(o.block.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := dec.Close(); err != nil || !slices.Equal(got, list) {
			t.Fatalf("%v: sent %v, got %v", err, list, got)
		}
	}
	field := func(name, value string) hpack.HeaderField { return hpack.HeaderField{Name: name, Value: value} }
	usual := []hpack.HeaderField{field(":method", "POST"), field(":path", "/a"), field("x", "1"), field("y", "2")}
	send(usual)
	send(usual)
	if send(usual); remembered != 1 || o.block.Len() != len(usual) {
		t.Errorf("%d remembered, %d bytes for the same section again", remembered, o.block.Len())
	}
	late := hpack.HeaderField{Name: "late", Value: "5", Sensitive: true}
	if send(append(slices.Clone(usual), late)); remembered != 2 {
		t.Error("the beginning was not remembered")
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		list := slices.Clone(usual[:2+rnd.IntN(3)])
		for range rnd.IntN(3) {
			f := field(fmt.Sprint("f", rnd.IntN(3)), fmt.Sprint(rnd.IntN(1+rnd.IntN(200))))
			f.Sensitive = rnd.IntN(4) == 0
			list = append(list, f)
		}
		send(list)
		if rnd.IntN(500) == 0 {
			o.resizeTable(uint32(rnd.IntN(maxTable)))
		}
	}
	if remembered < 1000 {
		t.Errorf("%d of 20000 remembered", remembered)
	}
}
