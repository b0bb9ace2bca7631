package dubbo

import "testing"

// point is a class that names itself, by a method of the value.
type point struct{ X int64 }

func (point) JavaClassName() string { return "org.example.Point" }

// TestNullOfAClass: a nil pointer is null of its class, also where the class names itself by a method that such a pointer does not have.
func TestNullOfAClass(t *testing.T) {
	for _, v := range []any{(*point)(nil), &point{1}, point{1}} {
		if got := javaType(v); got != "org.example.Point" {
			t.Errorf("%#v is of type %q", v, got)
		}
	}
	if v, kind := argument((*point)(nil)); v != nil || kind != "org.example.Point" {
		t.Errorf("%v, %q", v, kind)
	}
	if _, err := appendArguments("move", []any{(*point)(nil)}); err != nil {
		t.Error(err)
	}
}
