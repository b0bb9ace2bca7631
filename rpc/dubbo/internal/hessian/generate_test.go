package hessian

import (
	"math/rand/v2"
	"testing"
)

// generator makes messages whose structure is nearly right, and whose types often do not fit.
type generator struct {
	*rand.Rand
	b       []byte
	defined []int // the number of fields of each class
	known   []bool
}

var generated = []struct {
	class  string
	fields []string
}{
	{throwableClass, []string{"stackTrace", "detailMessage", "cause", "suppressedExceptions", "novel"}},
	{nodeClass, []string{"name", "next", "children", "numbers", "table", "raw", "when", "any", "label", "ratio", "novel"}},
	{"\x10eddy.test.Colour", []string{"name"}},
	{"\x0djava.sql.Date", []string{"value"}},
	{"\x14java.math.BigInteger", []string{"signum", "mag", "novel"}},
	{"\x14java.math.BigDecimal", []string{"value"}},
	{"\x12eddy.test.NotKnown", []string{"a", "b"}},
	{"\x0feddy.test.Empty", nil},
}

// bytes appends bytes.
func (g *generator) bytes(b ...byte) { g.b = append(g.b, b...) }

// pick appends one of the strings.
func (g *generator) pick(s ...string) { g.b = append(g.b, s[g.IntN(len(s))]...) }

// value appends a value of at most depth levels.
func (g *generator) value(depth int) {
	n := g.IntN(12)
	if depth == 0 {
		n = g.IntN(4)
	}
	switch n {
	case 0, 1:
		g.pick("N", "T", "\x91", "I\x90\x58\x7f\xff", "\xe1", "\x5c", "D\x3f\xf8\x00\x00\x00\x00\x00\x00", "K\x00\x00\x00\x01")
	case 2:
		g.pick("\x00", "\x05GREEN", "\x06WWWWWW", "\x021x", "\x04name", "\x0211")
	case 3:
		g.pick("\x21x", "\x20")
		if g.IntN(2) == 0 {
			g.b = g.b[:len(g.b)-1]
			g.pick("N", "\x51\x90")
		}
	case 4, 5:
		g.list(depth)
	case 6, 7:
		g.table(depth)
	case 8:
		g.bytes(0x51, 0x90+byte(g.IntN(6)))
	default:
		g.object(depth)
	}
}

// list appends a list.
func (g *generator) list(depth int) {
	n := g.IntN(4)
	switch typed := g.IntN(2) == 0; {
	case typed && g.IntN(3) == 0:
		g.bytes(0x55)
		n += 100
	case typed:
		g.bytes(0x70 + byte(n))
	case g.IntN(3) == 0:
		g.bytes(0x57)
		n += 200
	default:
		g.bytes(0x78 + byte(n))
	}
	if n < 200 && (n >= 100 || g.b[len(g.b)-1] < 0x78) {
		g.pick("\x04[int", "\x05[[int", "\x07[object", "\x0deddy.test.Set", "\x90", "\x91", "\x01x", "\x00", "\x0f[eddy.test.Node")
	}
	for range n % 100 {
		g.value(depth - 1)
	}
	if n >= 100 {
		g.bytes('Z')
	}
}

// table appends a map.
func (g *generator) table(depth int) {
	g.pick("H", "H", "M\x01x", "M\x01y", "M\x90", "M"+nodeClass)
	for range g.IntN(3) {
		if g.IntN(4) > 0 {
			g.pick("\x01a", "\x01b", "\x90", "\x04Name", "\x08Children")
		} else {
			g.value(min(depth-1, 1))
		}
		g.value(depth - 1)
	}
	g.bytes('Z')
}

// object appends an object, and the definition of its class if it is the first.
func (g *generator) object(depth int) {
	if len(g.defined) > 0 && g.IntN(2) == 0 {
		i := g.IntN(len(g.defined))
		g.bytes(0x60 + byte(i))
		for range g.defined[i] {
			g.value(depth - 1)
		}
		return
	}
	i := g.IntN(len(generated))
	if g.known[i] {
		return
	}
	g.known[i] = true
	c := generated[i]
	from := 0
	if len(c.fields) > 2 {
		from = g.IntN(len(c.fields))
	}
	fields := c.fields[from:min(len(c.fields), from+4)]
	def := classDef(c.class, fields...)
	g.b = append(g.b, def[:len(def)-1]...)
	g.bytes(0x60 + byte(len(g.defined)))
	g.defined = append(g.defined, len(fields))
	for range fields {
		g.value(depth - 1)
	}
}

func TestGenerated(t *testing.T) {
	accepted, decoded := 0, 0
	for seed := range uint64(5000) {
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 1)), known: make([]bool, len(generated))}
		g.bytes(0x57)
		for range 1 + seed%8 {
			g.value(4)
		}
		g.pick("ZNNNN")
		rest, err := Check(g.b, 1, Limits{})
		if err != nil {
			continue
		}
		accepted++
		out := decode(g.b)
		if most := 128<<10 + 1024*len(g.b); out.foul != "" || out.allocated > most {
			t.Fatalf("seed %d, %q: %s, %d bytes allocated", seed, g.b, out.foul, out.allocated)
		}
		if out.ok {
			decoded++
			if out.rest != len(rest) {
				t.Fatalf("seed %d, %q: the decoder leaves %d bytes, Check %d", seed, g.b, out.rest, len(rest))
			}
		}
	}
	t.Logf("%d accepted, %d of them decoded", accepted, decoded)
	if accepted < 500 || decoded < 100 {
		t.Errorf("%d accepted, %d of them decoded: too few to tell", accepted, decoded)
	}
}
