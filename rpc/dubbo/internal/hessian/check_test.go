package hessian

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	hessian2 "github.com/apache/dubbo-go-hessian2"
	"github.com/apache/dubbo-go-hessian2/java8_time"
	"github.com/apache/dubbo-go-hessian2/java_exception"
	"github.com/apache/dubbo-go-hessian2/java_sql_time"
	"github.com/apache/dubbo-go-hessian2/java_util"
	big "github.com/dubbogo/gost/math/big"
)

type base struct{ Label string }

type node struct {
	base
	Name     string
	Next     *node
	Children []*node
	Numbers  []int32
	Table    map[string]int32
	Raw      []byte
	When     time.Time
	Any      any
	secret   int
	Ratio    float32
}

func (*node) JavaClassName() string { return "eddy.test.Node" }

type empty struct{}

func (*empty) JavaClassName() string { return "eddy.test.Empty" }

type colour hessian2.JavaEnum

func (colour) JavaClassName() string { return "eddy.test.Colour" }
func (c colour) String() string      { return []string{"RED", "GREEN"}[c] }
func (colour) EnumValue(s string) hessian2.JavaEnum {
	if s == "GREEN" {
		return 1
	}
	return 0
}

const unknownConstant = "unknown constant"

// strictColour panics at names that it does not know.
type strictColour hessian2.JavaEnum

func (strictColour) JavaClassName() string { return "eddy.test.StrictColour" }
func (strictColour) String() string        { return "RED" }
func (strictColour) EnumValue(s string) hessian2.JavaEnum {
	if s != "RED" {
		panic(unknownConstant)
	}
	return 0
}

type set struct{ values []any }

func (s *set) Get() []any          { return s.values }
func (s *set) Set(v []any)         { s.values = v }
func (*set) JavaClassName() string { return "eddy.test.Set" }

type table map[int32]int32

func (table) JavaClassName() string { return "eddy.test.Map" }

func init() {
	hessian2.RegisterPOJO(table{})
	hessian2.RegisterPOJO(&node{secret: 1})
	hessian2.RegisterPOJO(&empty{})
	hessian2.RegisterJavaEnum(colour(0))
	hessian2.RegisterJavaEnum(strictColour(0))
	hessian2.SetCollectionSerialize(&set{})
}

// encode encodes the values as one message.
func encode(t testing.TB, values ...any) []byte {
	t.Helper()
	e := hessian2.NewEncoder()
	for _, v := range values {
		if err := e.Encode(v); err != nil {
			t.Fatalf("encode %T: %v", v, err)
		}
	}
	return e.Buffer()
}

// encodings are messages of one value by the encoder of the library.
func encodings(t testing.TB) map[string][]byte {
	m := map[string][]byte{}
	add := func(name string, v any) { m[name] = encode(t, v) }
	for _, n := range []int64{0, -1, 0x2f, 0x30, -0x10, -0x11, 0x7ff, -0x800, 0x800, 0x3ffff, -0x40000, 0x40000, 1 << 30, -1 << 31} {
		add(fmt.Sprint("int ", n), int32(n))
		add(fmt.Sprint("long ", n), n)
		add(fmt.Sprint("double ", n), float64(n))
		add(fmt.Sprint("float ", n), float32(n)/8)
	}
	for i, f := range []float64{math.Pi, math.NaN(), math.Inf(1), math.MaxFloat64, 1e-300, -129, 40000} {
		add(fmt.Sprint("double no. ", i), f)
		add(fmt.Sprint("float no. ", i), float32(f))
	}
	for _, n := range []int{0, 1, 31, 32, 1023, 1024, 4095, 4096, 4097, 8192, 70000} {
		for _, s := range []string{"a", "ä", "漢", "😀"} {
			add(fmt.Sprint("string ", n, s), strings.Repeat(s, n))
			add(fmt.Sprint("string ", n, s, " shifted"), "x"+strings.Repeat(s, n))
		}
		add(fmt.Sprint("bytes ", n), bytes.Repeat([]byte{0x51}, n))
	}
	a, b := &node{Name: "a", Table: map[string]int32{"x": 1}}, &node{Name: "b", Raw: []byte("raw"), Numbers: []int32{1, 1 << 30}}
	a.Next, b.Next, a.Children, b.Any = b, a, []*node{b, a, nil}, []any{colour(1), a}
	b.When, b.Ratio, b.Label = time.Unix(1e9, 0), 1.5, "label"
	shared := []any{"x", int32(1)}
	for name, v := range map[string]any{
		"nil": nil, "true": true, "false": false, "time": time.Unix(1700000000, 123e6), "no time": time.Time{},
		"invalid string": "a\xffb\xed\xa0\x80", "long max": int64(math.MaxInt64), "uint64": uint64(math.MaxUint64),
		"list": []any{}, "list of 9": []any{1, 2, 3, 4, 5, 6, 7, 8, "9"}, "nested": []any{[]any{[]any{nil}}, shared, shared},
		"ints": []int32{1, 2, 1 << 30}, "longs": []int64{1}, "strings": []string{"a", ""}, "doubles": []float64{1.5}, "bools": []bool{true},
		"times": []time.Time{time.Unix(5, 0)}, "matrix": [][]int32{{1}, {2, 3}}, "cube": [][][]string{{{"x"}}},
		"map": map[any]any{"a": 1, 2: "b", nil: []any{}}, "registered map": table{1: 2}, "map of ints": map[int32]string{1: "x"}, "map of lists": map[string]any{"a": []any{map[string]any{}}},
		"as class": map[string]any{"_class": "eddy.test.Unregistered", "f": "x", "g": []any{&empty{}}}, "map by enum": map[any]any{colour(0): 1},
		"object": a, "list of objects": []*node{a, b, {}}, "empty": &empty{}, "empties": []any{&empty{}, &empty{}}, "enum": colour(1), "enums": []any{colour(0), strictColour(0)},
		"exception": java_exception.NewThrowable("boom"), "runtime exception": java_exception.NewRuntimeException("boom"),
		"generic exception": java_exception.NewDubboGenericException("a.B", "boom"), "set": &set{[]any{1, "x", &set{}}}, "large set": &set{make([]any, 20)},
		"sql date": &java_sql_time.Date{Time: time.Unix(3, 0)}, "sql time": &java_sql_time.Time{Time: time.Unix(3, 0)},
		"local": java8_time.LocalDateTime{}, "zoned": java8_time.ZonedDateTime{ZoneId: "Z"}, "uuid": java_util.UUID{Value: "1"},
	} {
		add(name, v)
	}
	n, d := &big.Integer{}, &big.Decimal{}
	if err := n.FromString("123456789012345678901234567890"); err != nil {
		t.Fatal(err)
	}
	if err := d.FromString("-1.5"); err != nil {
		t.Fatal(err)
	}
	add("big integer", n)
	add("big decimal", d)
	return m
}

func TestCheckAcceptsEncodings(t *testing.T) {
	for name, b := range encodings(t) {
		rest, err := Check(append(b[:len(b):len(b)], "rest"...), 1, Limits{})
		if err != nil || string(rest) != "rest" {
			t.Errorf("%s: rest %q, error %v, of % x", name, rest, err, b[:min(len(b), 200)])
		}
	}
}

func TestCheckSeveralValues(t *testing.T) {
	o := &node{Name: "o"}
	b := encode(t, o, "x", o, &node{})
	if rest, err := Check(b, 4, Limits{}); err != nil || len(rest) != 0 {
		t.Errorf("rest %q, error %v", rest, err)
	}
	if _, err := Check(b, 5, Limits{}); err == nil || !strings.Contains(err.Error(), fmt.Sprint("offset ", len(b))) {
		t.Errorf("one value too many: error %v", err)
	}
	if rest, err := Check(b, 0, Limits{}); err != nil || len(rest) != len(b) {
		t.Errorf("no value: rest of %d, error %v", len(rest), err)
	}
}

func TestCheckTruncated(t *testing.T) {
	for name, b := range encodings(t) {
		step := 1 + len(b)/300 // all of the short ones
		for i := 0; i < len(b); i += step {
			if _, err := Check(b[:i], 1, Limits{}); err == nil || !strings.Contains(err.Error(), "offset ") {
				t.Fatalf("%s cut to %d of %d bytes: error %v", name, i, len(b), err)
			}
		}
	}
}

// deep returns n lists in one another.
func deep(n int) []byte { return append(bytes.Repeat([]byte{0x79}, n-1), 0x78) }

// classes returns a list of n objects, each of a class of its own, with m fields.
func classes(n, m int) []byte {
	b := []byte{0x57}
	for i := range n {
		b = append(append(b, 'C', 2, byte('a'+i/26), byte('a'+i%26), 0xc8+byte(m>>8), byte(m)), make([]byte, m)...)
		b = append(append(b, 'O', 0xc8+byte(i>>8), byte(i)), bytes.Repeat([]byte{'N'}, m)...)
	}
	return append(b, 'Z')
}

func TestCheckLimits(t *testing.T) {
	types := []byte{0x57}
	for i := range 5 {
		types = append(types, 0x70, 1, 'a'+byte(i))
	}
	types = append(types, 'Z')
	for _, c := range []struct {
		name   string
		limits Limits
		at     []byte // accepted
		over   []byte
		says   string
	}{
		{"depth", Limits{Depth: 5}, deep(5), deep(6), "Limits.Depth, 5"},
		{"default depth", Limits{}, deep(64), deep(65), "Limits.Depth, 64"},
		{"dimensions", Limits{Depth: 2}, []byte("\x70\x05[[int"), []byte("\x70\x06[[[int"), "Limits.Depth, 2"},
		{"values", Limits{Values: 5}, []byte("\x7cNNNN"), []byte("\x57NNNNNZ"), "Limits.Values, 5"},
		{"count", Limits{Values: 5}, []byte("\x58\x94NNNN"), []byte("\x58\x95NNNNN"), "Limits.Values, 5"},
		{"classes", Limits{Classes: 3}, classes(3, 1), classes(4, 1), "Limits.Classes, 3"},
		{"default classes", Limits{}, classes(256, 1), classes(257, 1), "Limits.Classes, 256"},
		{"types", Limits{Classes: 5}, types, append(types[:len(types)-1:len(types)-1], "\x70\x01xZ"...), "Limits.Classes, 5"},
		{"fields", Limits{Fields: 3}, classes(1, 3), classes(1, 4), "Limits.Fields, 3"},
		{"default fields", Limits{}, classes(1, 256), classes(1, 257), "Limits.Fields, 256"},
	} {
		if rest, err := Check(c.at, 1, c.limits); err != nil || len(rest) != 0 {
			t.Errorf("%s: rest %q, error %v", c.name, rest, err)
		}
		if _, err := Check(c.over, 1, c.limits); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "offset ") {
			t.Errorf("%s, one more: error %v", c.name, err)
		}
	}
}

func TestCheckBoundsVisits(t *testing.T) {
	message := func(lists, entries int) []byte {
		b := append([]byte{0x57}, bytes.Repeat([]byte{0x78}, lists)...)
		return append(append(append(b, 'H'), bytes.Repeat([]byte{'T', 'F'}, entries)...), 'Z', 'Z')
	}
	if _, err := Check(message(20000, 3000), 1, Limits{}); err != nil {
		t.Error(err)
	}
	if _, err := Check(message(20000, 20000), 1, Limits{}); err == nil || !strings.Contains(err.Error(), "Limits.Values, 65536") {
		t.Errorf("error %v", err)
	}
}

func TestCheckDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget")
	}
	o := map[string]any{"a": []any{1, "x", 2.5}, "b": map[string]string{"c": "d"}}
	b := encode(t, "version", "path", o, o, []byte("raw"))
	if n := testing.AllocsPerRun(100, func() { _, _ = Check(b, 5, Limits{}) }); n > 0 {
		t.Errorf("%v allocations without classes", n)
	}
	b = encode(t, &node{Name: "x"}, &node{})
	if n := testing.AllocsPerRun(100, func() { _, _ = Check(b, 2, Limits{}) }); n > 2 {
		t.Errorf("%v allocations with one registered class", n)
	}
}
