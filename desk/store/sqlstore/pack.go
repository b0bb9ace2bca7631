package sqlstore

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/go-eddy/eddy/desk/store"
)

// packVersion is the first number of a packed day.
const packVersion = 1

const slotsOfDay = dayMS / store.SlotQuarter

// packing packs the facts of a day into bytes: texts that occur, origins as numbers of texts, facts as numbers of both.
type packing struct {
	day     int64
	texts   map[string]uint64
	origins map[origin]uint64
	names   []byte // the texts
	whose   []byte // the origins
	facts   []byte
}

func newPacking(day int64) *packing {
	return &packing{day: day, texts: make(map[string]uint64), origins: make(map[origin]uint64)}
}

func (p *packing) text(s string) uint64 {
	i, ok := p.texts[s]
	if !ok {
		i = uint64(len(p.texts))
		p.texts[s] = i
		p.names = append(binary.AppendUvarint(p.names, uint64(len(s))), s...)
	}
	return i
}

func (p *packing) add(o *origin, f *fact) {
	i, ok := p.origins[*o]
	if !ok {
		i = uint64(len(p.origins))
		p.origins[*o] = i
		for _, s := range []string{o.site, o.group, o.agent, o.tag} {
			p.whose = binary.AppendUvarint(p.whose, p.text(s))
		}
	}
	for _, n := range []uint64{uint64(f.slot/store.SlotQuarter - p.day*slotsOfDay), i, p.text(f.measure), uint64(max(f.bucket, 0))} {
		p.facts = binary.AppendUvarint(p.facts, n)
	}
	p.facts = binary.AppendVarint(binary.AppendVarint(p.facts, f.n), f.total)
}

// bytes returns the packed day, with a check sum behind it.
func (p *packing) bytes() []byte {
	b := append(binary.AppendUvarint([]byte{packVersion}, uint64(len(p.texts))), p.names...)
	b = append(binary.AppendUvarint(b, uint64(len(p.origins))), p.whose...)
	b = append(b, p.facts...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// unpacked is a day that was packed. The next unpack takes its memory.
type unpacked struct {
	texts   []string
	origins []origin
	facts   []factOf
}

// factOf is a fact with the number of its origin.
type factOf struct {
	fact
	of int
}

// unpack reads a packed day. false means that these bytes are none that this program has packed.
func (u *unpacked) unpack(day int64, b []byte) bool {
	end := len(b) - crc32.Size
	if end < 1 || b[0] != packVersion || binary.BigEndian.Uint32(b[end:]) != crc32.ChecksumIEEE(b[:end]) {
		return false
	}
	c := &packed{b: b[1:end]}
	u.texts, u.origins, u.facts = u.texts[:0], u.origins[:0], u.facts[:0]
	for n := c.number(len(c.b) + 1); n > 0 && !c.bad; n-- {
		u.texts = append(u.texts, c.text())
	}
	text := func() string {
		if i := c.number(len(u.texts)); !c.bad {
			return u.texts[i]
		}
		return ""
	}
	for n := c.number(len(c.b) + 1); n > 0 && !c.bad; n-- {
		u.origins = append(u.origins, origin{text(), text(), text(), text()})
	}
	for len(c.b) > 0 && !c.bad {
		var f factOf
		f.slot = day*dayMS + int64(c.number(int(slotsOfDay)))*store.SlotQuarter
		f.of = c.number(len(u.origins))
		f.measure = text()
		f.bucket = c.number(1 << 30)
		f.n, f.total = c.signed(), c.signed()
		u.facts = append(u.facts, f)
	}
	return !c.bad
}

// packed are the bytes of a packed day that have not been read.
type packed struct {
	b   []byte
	bad bool
}

// number reads a number below a limit.
func (c *packed) number(limit int) int {
	v, n := binary.Uvarint(c.b)
	if n <= 0 || v >= uint64(limit) {
		c.bad = true
		return 0
	}
	c.b = c.b[n:]
	return int(v)
}

func (c *packed) signed() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.bad = true
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *packed) text() string {
	n := c.number(len(c.b) + 1)
	if n > len(c.b) {
		c.bad = true
	}
	if c.bad {
		return ""
	}
	s := string(c.b[:n])
	c.b = c.b[n:]
	return s
}
