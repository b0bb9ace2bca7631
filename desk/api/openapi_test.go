package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/desk/store"
)

// schema is what the test reads of a schema.
type schema struct {
	Ref                  string `json:"$ref"`
	Type                 string
	Required             []string
	Properties           map[string]*schema
	Items                *schema
	AdditionalProperties *schema
	Maximum, Default     *float64
	MaxLength, MaxItems  int
	Enum                 []string
}

type media struct {
	Content map[string]struct{ Schema *schema }
}

type operation struct {
	Security   []map[string][]string
	Parameters []struct {
		Ref, Name, In string
		Schema        *schema
	}
	RequestBody *media
	Responses   map[string]media
}

type openAPI struct {
	OpenAPI    string
	Paths      map[string]map[string]*operation
	Components struct {
		Schemas   map[string]*schema
		Responses map[string]media
	}
	used map[string]bool
}

func parse(t *testing.T) *openAPI {
	t.Helper()
	d := &openAPI{used: make(map[string]bool)}
	if err := json.Unmarshal(Description(), d); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *openAPI) resolve(s *schema) *schema {
	if s == nil || s.Ref == "" {
		return s
	}
	name := strings.TrimPrefix(s.Ref, "#/components/schemas/")
	d.used[name] = true
	return d.Components.Schemas[name]
}

// differ lists where a schema says something else than a type does. loose is for bodies, whose fields may be absent.
func (d *openAPI) differ(at string, s *schema, typ reflect.Type, loose bool) (wrong []string) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if s = d.resolve(s); s == nil {
		return []string{at + " has no schema"}
	}
	want := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer", reflect.Uint64: "integer", reflect.Float64: "number",
		reflect.Slice: "array", reflect.Array: "array", reflect.Map: "object", reflect.Struct: "object",
	}[typ.Kind()]
	if s.Type != want {
		return []string{fmt.Sprintf("%s is %q, in the code %s", at, s.Type, typ)}
	}
	switch typ.Kind() {
	case reflect.Slice, reflect.Array:
		return d.differ(at+"[]", s.Items, typ.Elem(), loose)
	case reflect.Map:
		return d.differ(at+"{}", s.AdditionalProperties, typ.Elem(), loose)
	case reflect.Struct:
		fields, required := make(map[string]bool), []string{}
		for _, f := range reflect.VisibleFields(typ) {
			name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || name == "-" {
				continue
			}
			fields[name] = true
			if rest != "omitempty" {
				required = append(required, name)
			}
			wrong = append(wrong, d.differ(at+"."+name, s.Properties[name], f.Type, loose)...)
		}
		for name := range s.Properties {
			if !fields[name] {
				wrong = append(wrong, at+"."+name+" is not in the code")
			}
		}
		slices.Sort(required)
		if got := slices.Sorted(slices.Values(s.Required)); !loose && !slices.Equal(got, required) {
			wrong = append(wrong, fmt.Sprintf("%s requires %q, in the code %q", at, got, required))
		}
	}
	return wrong
}

// compare lists where the description differs from the calls.
func (d *openAPI) compare(calls []Call) (wrong []string) {
	described := make(map[string]*operation)
	for path, methods := range d.Paths {
		for method, op := range methods {
			described[strings.ToUpper(method)+" "+path] = op
		}
	}
	for _, c := range calls {
		op := described[c.Pattern]
		delete(described, c.Pattern)
		if op == nil {
			wrong = append(wrong, c.Pattern+" is not described")
			continue
		}
		if want := []map[string][]string{{"key": {string(c.Scope)}}}; !reflect.DeepEqual(op.Security, want) {
			wrong = append(wrong, fmt.Sprintf("%s needs %v, in the code %v", c.Pattern, op.Security, want))
		}
		var query []string
		for _, p := range op.Parameters {
			if p.In == "query" {
				query = append(query, p.Name)
			}
		}
		if slices.Sort(query); !slices.Equal(query, slices.Sorted(slices.Values(c.Query))) {
			wrong = append(wrong, fmt.Sprintf("%s takes %q, in the code %q", c.Pattern, query, c.Query))
		}
		wrong = append(wrong, d.differ(c.Pattern+" answer", op.Responses["200"].Content["application/json"].Schema, c.Answer, false)...)
		if (op.RequestBody != nil) != (c.Body != nil) {
			wrong = append(wrong, c.Pattern+" has a body in one of both only")
		} else if c.Body != nil {
			wrong = append(wrong, d.differ(c.Pattern+" body", op.RequestBody.Content["application/json"].Schema, c.Body, true)...)
		}
	}
	for pattern := range described {
		wrong = append(wrong, pattern+" is described, and no call")
	}
	return wrong
}

// The description and the code say the same about methods, paths, scopes, parameters, bodies and answers.
func TestDescriptionIsThatOfTheCalls(t *testing.T) {
	d := parse(t)
	for _, w := range d.compare(Calls()) {
		t.Error(w)
	}
	problem := struct {
		Status int `json:"status"`
		proto.Error
	}{}
	for _, w := range d.differ("problem", d.Components.Responses["Problem"].Content["application/problem+json"].Schema, reflect.TypeOf(problem), false) {
		if !strings.Contains(w, "problem.head") { // which only the WebSocket has
			t.Error(w)
		}
	}
	for name := range maps.Keys(d.Components.Schemas) {
		if !d.used[name] {
			t.Errorf("the schema %s is not used", name)
		}
	}
	if d.OpenAPI != "3.1.0" {
		t.Errorf("version %q", d.OpenAPI)
	}
}

// The comparison finds what differs.
func TestDifferencesAreFound(t *testing.T) {
	type other struct {
		ID    int    `json:"id"`
		Extra string `json:"extra"`
	}
	for name, change := range map[string]func(*Call){
		"a call that is not described": func(c *Call) { c.Pattern = "GET /api/v1/other" },
		"another scope":                func(c *Call) { c.Scope = perm.KeyReports },
		"another parameter":            func(c *Call) { c.Query = []string{"x"} },
		"another answer":               func(c *Call) { c.Answer = reflect.TypeFor[other]() },
		"a body more":                  func(c *Call) { c.Body = reflect.TypeFor[other]() },
	} {
		calls := Calls()
		change(&calls[1])
		if len(parse(t).compare(calls)) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
	d := parse(t)
	d.Components.Schemas["Detail"].Required = nil
	delete(d.Components.Schemas["Spread"].Properties, "mean")
	if wrong := d.compare(Calls()); len(wrong) != 7 {
		t.Errorf("%q", wrong)
	}
}

// The limits in the description are those of the code.
func TestDescribedLimits(t *testing.T) {
	d := parse(t)
	limits := map[string]float64{"/api/v1/conversations": store.MaxConvPage, "/api/v1/conversations/{id}/events": MaxEvents}
	for path, most := range limits {
		for _, p := range d.Paths[path]["get"].Parameters {
			switch p.Name {
			case "limit":
				if *p.Schema.Maximum != most || *p.Schema.Default != defaultPage {
					t.Errorf("%s: limit %v", path, *p.Schema.Maximum)
				}
			case "cursor":
				if p.Schema.MaxLength != maxCursor {
					t.Errorf("%s: cursor %d", path, p.Schema.MaxLength)
				}
			}
		}
	}
	for _, p := range d.Paths["/api/v1/reports"]["get"].Parameters {
		if p.Name == "tag" && p.Schema.MaxLength != proto.MaxTagChars {
			t.Errorf("tag of a report: %d", p.Schema.MaxLength)
		}
	}
	for _, p := range d.Paths["/api/v1/conversations/{id}/messages"]["post"].Parameters {
		if p.Name == "Idempotency-Key" && p.Schema.MaxLength != maxIdempotent {
			t.Errorf("Idempotency-Key: %d", p.Schema.MaxLength)
		}
	}
	if n := d.Components.Schemas["Message"].Properties["text"].MaxLength; n != proto.MaxTextChars {
		t.Errorf("text: %d", n)
	}
	if s := d.Components.Schemas["Tag"].Properties["add"]; s.MaxItems != proto.MaxTags || s.Items.MaxLength != proto.MaxTagChars {
		t.Errorf("tags: %+v", s)
	}
}
