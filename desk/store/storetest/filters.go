package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/store"
)

// testFilters: each agent has filters of its own, a name is one filter, and their number and size are bounded.
func testFilters(t *testing.T, r *rig) {
	ctx := t.Context()
	refunds := store.SavedFilter{Name: "Refunds", Fields: map[string]string{"tag": "refund", "state": "closed"}}
	r.must(r.SaveFilter(ctx, r.lin.ID, store.SavedFilter{Name: "Refunds", Fields: map[string]string{"tag": "x"}}))
	r.must(r.SaveFilter(ctx, r.lin.ID, refunds))
	r.must(r.SaveFilter(ctx, r.moe.ID, store.SavedFilter{Name: "Mine", Fields: map[string]string{}}))
	got, err := r.Cold().SavedFilters(ctx, r.lin.ID)
	if err != nil || !reflect.DeepEqual(got, []store.SavedFilter{refunds}) {
		t.Errorf("%+v %v", got, err)
	}
	for field, bad := range map[string]store.SavedFilter{
		"name required": {}, "name long": {Name: strings.Repeat("n", store.MaxFilterName+1)}, "fields format": {Name: "x", Fields: map[string]string{"a b": "c"}},
		"fields long": {Name: "x", Fields: map[string]string{"tag": strings.Repeat("v", store.MaxFilterValue+1)}},
	} {
		wrong(t, field, r.SaveFilter(ctx, r.lin.ID, bad), field)
	}
	many := store.SavedFilter{Name: "x", Fields: map[string]string{}}
	for i := range store.MaxFilterFields + 1 {
		many.Fields[fmt.Sprint("f", i)] = ""
	}
	wrong(t, "too many fields", r.SaveFilter(ctx, r.lin.ID, many), "fields many")
	for i := range store.MaxFilters - 1 {
		r.must(r.SaveFilter(ctx, r.lin.ID, store.SavedFilter{Name: fmt.Sprint(i)}))
	}
	wrong(t, "one too many", r.SaveFilter(ctx, r.lin.ID, store.SavedFilter{Name: "more"}), "filters many")
	r.must(r.SaveFilter(ctx, r.lin.ID, refunds)) // a known name is not one more
	r.must(r.DropFilter(ctx, r.lin.ID, "Refunds"))
	if err := r.DropFilter(ctx, r.lin.ID, "Refunds"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("dropped twice: %v", err)
	}
	if got, err := r.Cold().SavedFilters(ctx, r.moe.ID); err != nil || len(got) != 1 {
		t.Errorf("those of another: %+v %v", got, err)
	}
}
