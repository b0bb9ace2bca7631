package dubbo

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"sync"
	"time"

	hessian2 "github.com/apache/dubbo-go-hessian2"
	"github.com/apache/dubbo-go-hessian2/java_exception"

	"github.com/go-eddy/eddy/rpc/dubbo/internal/hessian"
)

// Limits bound what one value of a peer may have: lists, maps and objects within each other, values and classes. A value
// beyond them is refused before anything of it is made. Zero means the default.
type Limits = hessian.Limits

// Arg is an argument whose type in Java is another than that of Value: dubbo.Arg{Type: "java.lang.Long", Value: int64(1)}.
type Arg struct {
	Type  string
	Value any
}

// RegisterClass names the class of Java that a struct stands for, as in RegisterClass("org.example.User", User{}). Fields
// are named as in Java: with a lower first letter, or by the tag hessian:"name". An ID needs the tag, because it is iD without. Call it before the first call. It panics if
// of is no struct and no pointer to one.
func RegisterClass(class string, of any) {
	t := reflect.TypeOf(of)
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("dubbo: class %s: a %T is no struct", class, of))
	}
	classes.Store(t, class)
	hessian2.RegisterPOJOMapping(class, of)
}

var classes sync.Map // of RegisterClass: a reflect.Type's name

// encode returns a value in Hessian 2.0.
func encode(v any) ([]byte, error) {
	e := hessian2.NewEncoder()
	if err := encodeTo(e, v); err != nil {
		return nil, err
	}
	return e.Buffer(), nil
}

func encodeTo(e *hessian2.Encoder, v any) (err error) {
	defer func() { // the encoder panics at values that Java has no word for
		if r := recover(); r != nil {
			err = fmt.Errorf("a %T in Hessian 2.0: %v", v, r)
		}
	}()
	g := generalizer{key: keyOfObject}
	if made := g.of(reflect.ValueOf(v)); g.again { // the encoder would write an object each time, and one within itself without end
		v = made
	}
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("a %T in Hessian 2.0: %w", v, err)
	}
	return nil
}

// runtimeException is the class of an exception that Java knows where it does not know better.
const runtimeException = "java.lang.RuntimeException"

// appendException appends an answer that is an exception, in the form that a generic call expects if details say so.
func appendException(dst []byte, id uint64, text, details string) []byte {
	generic, follows, _ := splitThrown(details)
	e := java_exception.Throwabler(java_exception.NewRuntimeException(text))
	if generic {
		g := java_exception.NewDubboGenericException(runtimeException, text)
		g.DetailMessage, g.StackTrace = runtimeException+": "+text, []java_exception.StackTraceElement{}
		e = g
	}
	b, err := encode(e)
	if err != nil { // no such exception fails
		return appendRefusal(dst, id, statusServerError, text)
	}
	kind := byte(answerException)
	if follows != "" {
		kind += attached
	}
	at := len(dst)
	dst = append(append(appendHeader(dst, 0, statusOK, id), codeInt+kind), b...)
	return finish(append(append(dst, follows...), null), at)
}

// decode reads one value into dst, a pointer.
func decode(b []byte, dst reflect.Value, l Limits) error {
	rest, err := hessian.Check(b, 1, l)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return fmt.Errorf("%d bytes behind the value", len(rest))
	}
	return newReader(b).read(dst, l)
}

// A reader reads values that package hessian has let pass, one behind the other.
type reader struct{ d *hessian2.Decoder }

func newReader(b []byte) reader { return reader{hessian2.NewDecoder(b)} }

// skip passes over a value.
func (r reader) skip() error {
	_, err := r.d.Decode()
	return err
}

// read reads a value into dst.
func (r reader) read(dst reflect.Value, l Limits) (err error) {
	defer func() { // the decoder panics at fields that a struct has with another type
		if r := recover(); r != nil {
			err = fmt.Errorf("a value that is none of %v: %v", dst.Type(), r)
		}
	}()
	v, err := r.d.Decode()
	if err != nil {
		return fmt.Errorf("a value that is none of %v: %w", dst.Type(), err)
	}
	a := newAssigner(l)
	return a.assign(dst, reflect.ValueOf(v))
}

// An assigner gives variables the values that the decoder has made. Numbers may change their size, if they fit; lists and
// maps change value by value. left bounds how many: a peer may refer to one list a thousand times, or to a list in itself.
// levels bounds how deep, because a map may be within itself.
type assigner struct{ left, levels int }

func newAssigner(l Limits) *assigner {
	l = l.WithDefaults()
	return &assigner{left: l.Values, levels: l.Depth}
}

// within assigns the parts of a value, one level deeper.
func (a *assigner) within(parts func(dst, v reflect.Value) error, dst, v reflect.Value) error {
	if a.levels == 0 {
		return errors.New("more than Limits.Depth levels, by references to what encloses them")
	}
	a.levels--
	defer func() { a.levels++ }()
	return parts(dst, v)
}

func (a *assigner) assign(dst, v reflect.Value) error {
	if a.left--; a.left < 0 {
		return errors.New("more values than allowed, by references to one of them")
	}
	for v.IsValid() && v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		dst.SetZero()
		return nil
	}
	if v.Type().AssignableTo(dst.Type()) {
		dst.Set(v)
		return nil
	}
	if dst.Kind() == reflect.Pointer {
		p := reflect.New(dst.Type().Elem())
		if err := a.assign(p.Elem(), v); err != nil {
			return err
		}
		dst.Set(p)
		return nil
	}
	if v.Kind() == reflect.Pointer {
		return a.assign(dst, v.Elem())
	}
	switch dst.Kind() {
	case reflect.Slice, reflect.Array:
		return a.within(a.assignList, dst, v)
	case reflect.Map:
		return a.within(a.assignMap, dst, v)
	case reflect.Struct:
		if _, class := classes.Load(dst.Type()); class && v.Kind() == reflect.Map {
			return a.within(a.assignFields, dst, v)
		}
	case reflect.String, reflect.Bool:
		if v.Kind() == dst.Kind() {
			dst.Set(v.Convert(dst.Type()))
			return nil
		}
	default:
		if ok := assignNumber(dst, v); ok {
			return nil
		}
	}
	return fmt.Errorf("a %v is no %v", v.Type(), dst.Type())
}

// assignNumber reports whether v is a number that dst can hold.
func assignNumber(dst, v reflect.Value) bool {
	switch {
	case v.CanInt() && dst.CanInt() && !dst.OverflowInt(v.Int()):
		dst.SetInt(v.Int())
	case v.CanInt() && dst.CanUint() && v.Int() >= 0 && !dst.OverflowUint(uint64(v.Int())):
		dst.SetUint(uint64(v.Int()))
	case v.CanUint() && dst.CanUint() && !dst.OverflowUint(v.Uint()):
		dst.SetUint(v.Uint())
	case v.CanUint() && dst.CanInt() && v.Uint() <= math.MaxInt64 && !dst.OverflowInt(int64(v.Uint())):
		dst.SetInt(int64(v.Uint()))
	case v.CanFloat() && dst.CanFloat() && !dst.OverflowFloat(v.Float()):
		dst.SetFloat(v.Float())
	case v.CanInt() && dst.CanFloat():
		dst.SetFloat(float64(v.Int()))
	default:
		return false
	}
	return true
}

func (a *assigner) assignList(dst, v reflect.Value) error {
	if k := v.Kind(); k != reflect.Slice && k != reflect.Array {
		return fmt.Errorf("a %v is no %v", v.Type(), dst.Type())
	}
	to := dst
	if dst.Kind() == reflect.Slice {
		to = reflect.MakeSlice(dst.Type(), v.Len(), v.Len())
	} else if v.Len() != dst.Len() {
		return fmt.Errorf("%d values for a %v", v.Len(), dst.Type())
	}
	for i := range v.Len() {
		if err := a.assign(to.Index(i), v.Index(i)); err != nil {
			return fmt.Errorf("value %d: %w", i, err)
		}
	}
	if dst.Kind() == reflect.Slice {
		dst.Set(to)
	}
	return nil
}

func (a *assigner) assignMap(dst, v reflect.Value) error {
	if v.Kind() != reflect.Map {
		return fmt.Errorf("a %v is no %v", v.Type(), dst.Type())
	}
	to := reflect.MakeMapWithSize(dst.Type(), v.Len())
	for it := v.MapRange(); it.Next(); {
		key, value := reflect.New(dst.Type().Key()).Elem(), reflect.New(dst.Type().Elem()).Elem()
		if err := a.assign(key, it.Key()); err != nil {
			return fmt.Errorf("key %v: %w", it.Key(), err)
		}
		if err := a.assign(value, it.Value()); err != nil {
			return fmt.Errorf("the value of key %v: %w", it.Key(), err)
		}
		if !key.Comparable() {
			return fmt.Errorf("key %v: not comparable", it.Key())
		}
		to.SetMapIndex(key, value)
	}
	dst.Set(to)
	return nil
}

// javaTypes are the names of types that have one word in both languages.
var javaTypes = map[reflect.Type]string{
	reflect.TypeFor[bool](): "boolean", reflect.TypeFor[int8](): "byte", reflect.TypeFor[uint8](): "byte", reflect.TypeFor[int16](): "short",
	reflect.TypeFor[uint16](): "char", reflect.TypeFor[int32](): "int", reflect.TypeFor[int](): "long", reflect.TypeFor[int64](): "long",
	reflect.TypeFor[float32](): "float", reflect.TypeFor[float64](): "double", reflect.TypeFor[string](): "java.lang.String",
	reflect.TypeFor[time.Time](): "java.util.Date", reflect.TypeFor[[]byte](): "[B", reflect.TypeFor[[]bool](): "[Z", reflect.TypeFor[[]int16](): "[S",
	reflect.TypeFor[[]int32](): "[I", reflect.TypeFor[[]int](): "[J", reflect.TypeFor[[]int64](): "[J", reflect.TypeFor[[]float32](): "[F",
	reflect.TypeFor[[]float64](): "[D", reflect.TypeFor[[]string](): "[Ljava.lang.String;",
}

// javaType returns the name of a value's type in Java.
func javaType(v any) string {
	if v == nil {
		return "java.lang.Object"
	}
	t := reflect.TypeOf(v)
	if name, ok := javaTypes[t]; ok {
		return name
	}
	if class, ok := classes.Load(t); ok {
		return class.(string) //nolint:forcetypeassert // RegisterClass has put it in
	}
	if t.Kind() == reflect.Pointer && reflect.ValueOf(v).IsNil() { // its method may be one of the value
		v = reflect.New(t.Elem()).Interface()
	}
	if class, ok := v.(hessian2.POJO); ok {
		return class.JavaClassName()
	}
	switch t.Kind() {
	case reflect.Slice, reflect.Array:
		return "java.util.List"
	case reflect.Map:
		return "java.util.Map"
	case reflect.Pointer:
		return javaType(reflect.Zero(t.Elem()).Interface())
	}
	return "java.lang.Object"
}
