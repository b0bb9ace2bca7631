package metrics

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-eddy/eddy/metrics/internal/expo"
)

// numbered fills the numbers of a snapshot with values that differ, so that a column that reads another's field is seen.
func numbered[S any](t *testing.T) (s S) {
	t.Helper()
	n := 0
	var fill func(reflect.Value)
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			f := v.Field(i)
			n++
			switch f.Kind() {
			case reflect.Int, reflect.Int64:
				if f.SetInt(int64(n)); f.Type() == reflect.TypeFor[time.Duration]() {
					f.SetInt(int64(n) * int64(time.Second))
				}
			case reflect.Uint64:
				f.SetUint(uint64(n))
			case reflect.Float64:
				f.SetFloat(float64(n))
			case reflect.Struct:
				fill(f)
			}
		}
	}
	fill(reflect.ValueOf(&s).Elem())
	return s
}

// ownFields fails when two columns of a table, switches left out, read the same field.
func ownFields[S any](t *testing.T, table expo.Table[S]) {
	t.Helper()
	s, by := numbered[S](t), map[float64]string{}
	for _, c := range table {
		v := c.Value(&s)
		switch {
		case v == 0: // a switch, or a field of another type
		case by[v] != "":
			t.Errorf("%s and %s read the same field", by[v], c.Name)
		}
		by[v] = c.Name
	}
	if len(by) < 2 {
		t.Error("no numbers")
	}
}

// TestColumnsReadTheirOwnFields: no two metrics tell the same number.
func TestColumnsReadTheirOwnFields(t *testing.T) {
	ownFields(t, loopTable)
	ownFields(t, serverTable)
	ownFields(t, dialerTable)
	ownFields(t, poolTable)
	ownFields(t, keyedTable)
	ownFields(t, laneTable)
	ownFields(t, spillTable)
	ownFields(t, httpTable)
	ownFields(t, transportTable)
	ownFields(t, tlsTable)
	ownFields(t, classTable)
	ownFields(t, hubTable)
	ownFields(t, compressionTable)
	ownFields(t, serviceTable)
	ownFields(t, eventTable)
	ownFields(t, clientTable)
}
