package proto

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the schema anew")

const schemaFile = "../im.v1.schema.json"

// answers are the payloads of the answers to each command; nil stands for {}, and no entry for no answer.
var answers = map[string][]any{
	"hello": {Welcome{}}, "ping": {Pong{}}, "conv.open": {Opened{}}, "conv.leave": {Changed{}}, "msg.send": {Ack{}}, "note.send": {Ack{}}, "take": {Changed{}}, "return": {Changed{}},
	"reopen": {Changed{}}, "conv.close": {Changed{}}, "assign": {Changed{}}, "conv.handoff": {Changed{}}, "transfer": {Changed{}, Offered{}},
	"transfer.accept": {Changed{}}, "transfer.decline": {Changed{}}, "sync": {Synced{}}, "watch": {Synced{}}, "unwatch": {nil}, "file.links": {Links{}},
	"status": {AgentStatus{}}, "agents": {AgentList{}}, "history": {Past{}}, "search": {Found{}}, "canned.list": {CannedItems{}}, "contact.get": {ContactGot{}},
	"contact.patch": {ContactChanged{}}, "contact.block": {ContactChanged{}}, "contact.erase": {nil}, "tag": {Tagged{}}, "priority": {Priority{}}, "snooze": {Snooze{}}, "conv.rate": {nil},
}

// events are the payloads of what the server says by itself. Those with a number are durable.
var events = map[string]any{
	"ev.msg": Msg{}, "ev.state": StateChange{}, "ev.queue": QueuePosition{}, "ev.typing": TypingNow{}, "ev.partial": Partial{}, "ev.receipt": ReceiptNow{}, "ev.presence": Presence{},
	"ev.file": File{}, "ev.conv": Row{}, "ev.agent": AgentInfo{}, "ev.offer": Offer{}, "ev.offer_end": OfferEnd{}, "ev.watch_end": WatchEnd{}, "ev.away": Away{}, "ev.erased": Erased{}, "ev.merged": Merged{}, "ev.visitor": VisitorNow{}, "bye": Bye{},
}

// durable are the events with a number.
var durable = []string{"ev.msg", "ev.state"}

// replies are the types of successful answers that are not "ok".
var replies = map[string]string{"hello": "welcome", "ping": "pong"}

// TestSchema: the schema for other programs says what the types of this package are, and names every command and event
// that the code has. After a change of the protocol, go test ./desk/proto -run TestSchema -update writes it.
func TestSchema(t *testing.T) {
	if got, want := keysOf(events), words(t, `proto\.Event\("([a-z._]+)"`, "../hub/*.go"); !slices.Equal(got, want) {
		t.Errorf("events of the schema %q, the hub sends %q", got, want)
	}
	want := schema(t)
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the code says (%v): go test ./desk/proto -run TestSchema -update", schemaFile, err)
	}
}

// words returns what an expression finds in the sources, without tests, in order and once.
func words(t *testing.T, expression, files string) []string {
	t.Helper()
	names, err := filepath.Glob(files)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range regexp.MustCompile(expression).FindAllSubmatch(source, -1) {
			found[string(m[1])] = true
		}
	}
	return keysOf(found)
}

func keysOf[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

type object = map[string]any

// schema returns a JSON Schema (draft 2020-12) of all messages.
func schema(t *testing.T) []byte {
	t.Helper()
	defs := object{}
	client, server := messages(t, defs)
	var b strings.Builder
	b.WriteString(`{
"$schema": "https://json-schema.org/draft/2020-12/schema",
"title": "` + Subprotocol + `",
"description": "Messages of the subprotocol, made from the code. PROTOCOL.md says what they mean and which limits they have.",
"anyOf": [{"$ref": "#/$defs/client"}, {"$ref": "#/$defs/server"}],
"$defs": {
`)
	for _, name := range keysOf(defs) {
		b.WriteString(line(t, name) + ": " + line(t, defs[name]) + ",\n")
	}
	b.WriteString(`"client": {"oneOf": [` + "\n" + lines(t, client) + "\n]},\n" + `"server": {"anyOf": [` + "\n" + lines(t, server) + "\n]}\n}\n}\n")
	if !json.Valid([]byte(b.String())) {
		t.Errorf("the schema is no JSON:\n%s", &b)
	}
	return []byte(b.String())
}

// messages returns the schemas of what clients and the server say; those of the payloads get into defs.
func messages(t *testing.T, defs object) (client, server []any) {
	t.Helper()
	for _, name := range words(t, `case "([a-z.]+)":\n\t\treturn kind`, "*.go") {
		k, ok := kindOf(name)
		if !ok {
			t.Fatalf("%s is no command", name)
		}
		message := envelopeOf(name, schemaOf(reflect.TypeOf(k.payload()).Elem(), defs, false))
		if k.conv {
			message["required"] = append(message["required"].([]string), "c")
		}
		if !k.noID {
			message["required"] = append(message["required"].([]string), "id")
		}
		message["properties"].(object)["id"] = object{"type": "string", "minLength": 1, "maxLength": maxIDBytes}
		if k.noID != (answers[name] == nil) {
			t.Errorf("%s: an answer needs the id that it has", name)
		}
		client = append(client, message)
		for _, payload := range answers[name] {
			d := object{"type": "object"}
			if payload != nil {
				d = schemaOf(reflect.TypeOf(payload), defs, true)
			}
			message := envelopeOf(replies[name], d)
			if replies[name] == "" {
				message = envelopeOf("ok", d)
			}
			message["title"] = "answer to " + name
			message["properties"].(object)["re"] = object{"type": "string"}
			message["required"] = append(message["required"].([]string), "d", "re")
			server = append(server, message)
		}
	}
	for _, name := range keysOf(events) {
		message := envelopeOf(name, schemaOf(reflect.TypeOf(events[name]), defs, true))
		message["required"] = append(message["required"].([]string), "d")
		if slices.Contains(durable, name) {
			message["properties"].(object)["s"] = object{"type": "integer", "minimum": 1}
			message["required"] = append(message["required"].([]string), "c", "s")
		}
		server = append(server, message)
	}
	refused := envelopeOf("err", schemaOf(reflect.TypeFor[Error](), defs, true))
	refused["properties"].(object)["re"] = object{"type": "string"}
	return client, append(server, refused)
}

// line returns v on one line, and lines each element of a list on its own, so that a change of the protocol is a change
// of few lines.
func line(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func lines(t *testing.T, list []any) string {
	t.Helper()
	var all []string
	for _, v := range list {
		all = append(all, line(t, v))
	}
	return strings.Join(all, ",\n")
}

// envelopeOf returns the schema of a message of one type.
func envelopeOf(name string, d object) object {
	return object{"type": "object", "required": []string{"t"}, "properties": object{"t": object{"const": name}, "c": object{"type": "string", "maxLength": maxIDBytes}, "d": d}}
}

// schemaOf returns the schema of a type; that of a struct gets into defs. full means that the server sends the type, with
// every field that is not left out when empty. Clients may leave out any field, and null is as good for what may be empty.
func schemaOf(t reflect.Type, defs object, full bool) object {
	if kind := t.Kind(); !full && (kind == reflect.Pointer || kind == reflect.Map || kind == reflect.Slice) {
		return object{"anyOf": []any{object{"type": "null"}, filled(t, defs, full)}}
	}
	return filled(t, defs, full)
}

// filled is schemaOf without null.
func filled(t reflect.Type, defs object, full bool) object {
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), defs, full)
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(t.Elem(), defs, full)}
	case reflect.Slice:
		if t == reflect.TypeFor[json.RawMessage]() {
			return object{"type": "object"}
		}
		return object{"type": "array", "items": schemaOf(t.Elem(), defs, full)}
	case reflect.Struct:
		if defs[t.Name()] == nil {
			properties, required := object{}, []string{}
			for _, f := range reflect.VisibleFields(t) {
				if f.Anonymous {
					continue
				}
				name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
				properties[name] = schemaOf(f.Type, defs, full)
				if full && options != "omitempty" {
					required = append(required, name)
				}
			}
			def := object{"type": "object", "properties": properties}
			if len(required) > 0 {
				def["required"] = required
			}
			defs[t.Name()] = def
		}
		return object{"$ref": "#/$defs/" + t.Name()}
	}
	panic("no schema for " + t.String())
}
