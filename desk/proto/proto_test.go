package proto

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

const uuid1 = "0190a6f4-0000-7000-8000-000000000001"

func TestDecode(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want Command
	}{
		"hello customer": {`{"t":"hello","id":"1","d":{"token":"x","seen":{"c1":5}}}`, Command{Type: "hello", ID: "1", Payload: &Hello{Token: "x", Seen: map[string]uint64{"c1": 5}}}},
		"hello agent":    {`{"t":"hello","id":"1","d":{"ticket":"x","device":"d","locale":"en"}}`, Command{Type: "hello", ID: "1", Payload: &Hello{Ticket: "x", Device: "d", Locale: "en"}}},
		"open":           {`{"t":"conv.open","id":"1"}`, Command{Type: "conv.open", ID: "1", Payload: &Open{Wants: "bot"}}},
		"send":           {`{"t":"msg.send","id":"1","c":"k","d":{"client_id":"` + strings.ToUpper(uuid1) + `","body":"hi"}}`, Command{Type: "msg.send", ID: "1", Conv: "k", Payload: &Send{ClientID: uuid1, Kind: "text", Body: "hi"}}},
		"typing":         {`{"t":"typing","c":"k","d":{"on":true}}`, Command{Type: "typing", Conv: "k", Payload: &Typing{On: true}}},
		"take":           {`{"t":"take","id":"1","c":"k","d":{"rev":4}}`, Command{Type: "take", ID: "1", Conv: "k", Payload: &Take{Rev: 4}}},
		"note":           {`{"t":"note.send","id":"1","c":"k","d":{"client_id":"` + strings.ToUpper(uuid1) + `","body":"hi"}}`, Command{Type: "note.send", ID: "1", Conv: "k", Payload: &Note{ClientID: uuid1, Body: "hi"}}},
		"transfer":       {`{"t":"transfer","id":"1","c":"k","d":{"agent":"a","note":"n","rev":4}}`, Command{Type: "transfer", ID: "1", Conv: "k", Payload: &Transfer{Agent: "a", Note: "n", Rev: 4}}},
		"to a group":     {`{"t":"transfer","id":"1","c":"k","d":{"group":"g"}}`, Command{Type: "transfer", ID: "1", Conv: "k", Payload: &Transfer{Group: "g"}}},
		"return":         {`{"t":"return","id":"1","c":"k","d":{"note":"n","rev":4}}`, Command{Type: "return", ID: "1", Conv: "k", Payload: &Return{Note: "n", Rev: 4}}},
		"reopen":         {`{"t":"reopen","id":"1","c":"k","d":{"rev":4}}`, Command{Type: "reopen", ID: "1", Conv: "k", Payload: &Reopen{Rev: 4}}},
		"close":          {`{"t":"conv.close","id":"1","c":"k","d":null}`, Command{Type: "conv.close", ID: "1", Conv: "k", Payload: &Close{}}},
		"sync":           {`{"t":"sync","id":"1","c":"k","d":{"after":7}}`, Command{Type: "sync", ID: "1", Conv: "k", Payload: &Sync{After: 7, Limit: defaultSync}}},
		"send files":     {`{"t":"msg.send","id":"1","c":"k","d":{"client_id":"` + uuid1 + `","kind":"file","attachments":["a","b"]}}`, Command{Type: "msg.send", ID: "1", Conv: "k", Payload: &Send{ClientID: uuid1, Kind: "file", Attachments: []string{"a", "b"}}}},
		"note with file": {`{"t":"note.send","id":"1","c":"k","d":{"client_id":"` + uuid1 + `","attachments":["a"]}}`, Command{Type: "note.send", ID: "1", Conv: "k", Payload: &Note{ClientID: uuid1, Attachments: []string{"a"}}}},
		"file links":     {`{"t":"file.links","id":"1","d":{"ids":["a","b"]}}`, Command{Type: "file.links", ID: "1", Payload: &FileLinks{IDs: []string{"a", "b"}}}},
		"ping":           {`{"t":"ping","id":"1","d":{"time":3}}`, Command{Type: "ping", ID: "1", Payload: &Ping{Time: 3}}},
		"unknown fields": {`{"t":"ping","id":"1","future":[{}],"d":{"also":1}}`, Command{Type: "ping", ID: "1", Payload: &Ping{}}},
	} {
		got, err := Decode([]byte(c.in))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	send := func(fields string) string { return `{"t":"msg.send","id":"7","c":"k","d":{` + fields + `}}` }
	id := `"client_id":"` + uuid1 + `"`
	for name, c := range map[string]struct {
		in   string
		want Code
		id   string // of the request, as far as it could be read
	}{
		"empty":                {``, CodeBadRequest, ""},
		"not JSON":             {`hello`, CodeBadRequest, ""},
		"cut off":              {`{"t":"ping","id":"7"`, CodeBadRequest, ""},
		"two values":           {`{"t":"ping","id":"7"}{}`, CodeBadRequest, ""},
		"an array":             {`[]`, CodeBadRequest, ""},
		"deep":                 {strings.Repeat(`{"d":`, 5000) + `1` + strings.Repeat(`}`, 5000), CodeBadRequest, ""},
		"very deep":            {strings.Repeat(`[`, 60000), CodeBadRequest, ""},
		"no type":              {`{"id":"7"}`, CodeBadRequest, "7"},
		"type is a number":     {`{"t":5,"id":"7"}`, CodeBadRequest, ""},
		"unknown type":         {`{"t":"dance","id":"7"}`, CodeUnknownType, "7"},
		"no id":                {`{"t":"ping"}`, CodeBadRequest, ""},
		"empty id":             {`{"t":"ping","id":""}`, CodeBadRequest, ""},
		"long id":              {`{"t":"ping","id":"` + strings.Repeat("x", 65) + `"}`, CodeBadRequest, ""},
		"id is a number":       {`{"t":"ping","id":7}`, CodeBadRequest, ""},
		"note without text":    {`{"t":"note.send","id":"7","c":"k","d":{` + id + `,"body":" "}}`, CodeBadRequest, "7"},
		"note without id":      {`{"t":"note.send","id":"7","c":"k","d":{"body":"x"}}`, CodeBadRequest, "7"},
		"long note":            {`{"t":"return","id":"7","c":"k","d":{"note":"` + strings.Repeat("x", 8001) + `"}}`, CodeTooLarge, "7"},
		"blank note":           {`{"t":"transfer","id":"7","c":"k","d":{"agent":"a","note":" "}}`, CodeBadRequest, "7"},
		"transfer nowhere":     {`{"t":"transfer","id":"7","c":"k"}`, CodeBadRequest, "7"},
		"transfer both ways":   {`{"t":"transfer","id":"7","c":"k","d":{"agent":"a","group":"g"}}`, CodeBadRequest, "7"},
		"long agent":           {`{"t":"transfer","id":"7","c":"k","d":{"agent":"` + strings.Repeat("x", 65) + `"}}`, CodeBadRequest, "7"},
		"transfer rev":         {`{"t":"transfer","id":"7","c":"k","d":{"agent":"a","rev":-1}}`, CodeBadRequest, "7"},
		"return rev":           {`{"t":"return","id":"7","c":"k","d":{"rev":-1}}`, CodeBadRequest, "7"},
		"reopen rev":           {`{"t":"reopen","id":"7","c":"k","d":{"rev":-1}}`, CodeBadRequest, "7"},
		"no conversation":      {`{"t":"take","id":"7"}`, CodeBadRequest, "7"},
		"long conversation":    {`{"t":"take","id":"7","c":"` + strings.Repeat("x", 65) + `"}`, CodeBadRequest, "7"},
		"payload is a string":  {`{"t":"take","id":"7","c":"k","d":"x"}`, CodeBadRequest, "7"},
		"hello without proof":  {`{"t":"hello","id":"7","d":{}}`, CodeBadRequest, "7"},
		"hello with two":       {`{"t":"hello","id":"7","d":{"token":"a","ticket":"b"}}`, CodeBadRequest, "7"},
		"hello long token":     {`{"t":"hello","id":"7","d":{"token":"` + strings.Repeat("x", 513) + `"}}`, CodeBadRequest, "7"},
		"hello negative seen":  {`{"t":"hello","id":"7","d":{"token":"a","seen":{"c":-1}}}`, CodeBadRequest, "7"},
		"hello long device":    {`{"t":"hello","id":"7","d":{"token":"a","device":"` + strings.Repeat("x", 65) + `"}}`, CodeBadRequest, "7"},
		"wants an elephant":    {`{"t":"conv.open","id":"7","d":{"wants":"elephant"}}`, CodeBadRequest, "7"},
		"fields are a list":    {`{"t":"conv.open","id":"7","d":{"fields":["a"]}}`, CodeBadRequest, "7"},
		"field is a number":    {`{"t":"conv.open","id":"7","d":{"fields":{"a":1}}}`, CodeBadRequest, "7"},
		"consent is a word":    {`{"t":"conv.open","id":"7","d":{"consent":"yes"}}`, CodeBadRequest, "7"},
		"too many fields":      {`{"t":"conv.open","id":"7","d":{"fields":` + strings.ReplaceAll(manySeen(maxFields+1), ":1", `:"1"`) + `}}`, CodeBadRequest, "7"},
		"long field":           {`{"t":"conv.open","id":"7","d":{"fields":{"a":"` + strings.Repeat("界", maxFieldChars+1) + `"}}}`, CodeBadRequest, "7"},
		"long field name":      {`{"t":"conv.open","id":"7","d":{"fields":{"` + strings.Repeat("a", maxIDBytes+1) + `":"x"}}}`, CodeBadRequest, "7"},
		"long page":            {`{"t":"conv.open","id":"7","d":{"page":"` + strings.Repeat("x", 2001) + `"}}`, CodeBadRequest, "7"},
		"send no client id":    {send(`"body":"x"`), CodeBadRequest, "7"},
		"send bad client id":   {send(`"client_id":"1","body":"x"`), CodeBadRequest, "7"},
		"send braced uuid":     {send(`"client_id":"{` + uuid1 + `}","body":"x"`), CodeBadRequest, "7"},
		"send empty":           {send(id + `,"body":""`), CodeBadRequest, "7"},
		"send blanks":          {send(id + `,"body":" \n\t "`), CodeBadRequest, "7"},
		"send too long":        {send(id + `,"body":"` + strings.Repeat("界", MaxTextChars+1) + `"`), CodeTooLarge, "7"},
		"send long payload":    {send(id + `,"body":"x","payload":"` + strings.Repeat("x", 257) + `"`), CodeBadRequest, "7"},
		"send a picture":       {send(id + `,"body":"x","kind":"picture"`), CodeBadRequest, "7"},
		"file without one":     {send(id + `,"body":"x","kind":"file"`), CodeBadRequest, "7"},
		"text with a file":     {send(id + `,"body":"x","attachments":["a"]`), CodeBadRequest, "7"},
		"the same file twice":  {send(id + `,"kind":"file","attachments":["a","b","a"]`), CodeBadRequest, "7"},
		"file without id":      {send(id + `,"kind":"file","attachments":[""]`), CodeBadRequest, "7"},
		"file with a long id":  {send(id + `,"kind":"file","attachments":["` + strings.Repeat("x", 65) + `"]`), CodeBadRequest, "7"},
		"eleven files":         {send(id + `,"kind":"file","attachments":` + manyIDs(MaxAttachments+1)), CodeTooLarge, "7"},
		"file and blanks":      {send(id + `,"kind":"file","attachments":["a"],"body":" "`), CodeBadRequest, "7"},
		"note of eleven files": {`{"t":"note.send","id":"7","c":"k","d":{` + id + `,"attachments":` + manyIDs(MaxAttachments+1) + `}}`, CodeTooLarge, "7"},
		"links of nothing":     {`{"t":"file.links","id":"7","d":{"ids":[]}}`, CodeBadRequest, "7"},
		"links of too many":    {`{"t":"file.links","id":"7","d":{"ids":` + manyIDs(MaxLinks+1) + `}}`, CodeBadRequest, "7"},
		"links of one twice":   {`{"t":"file.links","id":"7","d":{"ids":["a","a"]}}`, CodeBadRequest, "7"},
		"take negative":        {`{"t":"take","id":"7","c":"k","d":{"rev":-1}}`, CodeBadRequest, "7"},
		"close long reason":    {`{"t":"conv.close","id":"7","c":"k","d":{"reason":"` + strings.Repeat("界", 201) + `"}}`, CodeBadRequest, "7"},
		"sync negative limit":  {`{"t":"sync","id":"7","c":"k","d":{"limit":-1}}`, CodeBadRequest, "7"},
		"sync large limit":     {`{"t":"sync","id":"7","c":"k","d":{"limit":201}}`, CodeBadRequest, "7"},
		"sync huge number":     {`{"t":"sync","id":"7","c":"k","d":{"after":1e400}}`, CodeBadRequest, "7"},
		"sync negative after":  {`{"t":"sync","id":"7","c":"k","d":{"after":-5}}`, CodeBadRequest, "7"},
		"sync fractional":      {`{"t":"sync","id":"7","c":"k","d":{"after":1.5}}`, CodeBadRequest, "7"},
		"too many seen":        {`{"t":"hello","id":"7","d":{"token":"a","seen":` + manySeen(MaxSeen+1) + `}}`, CodeBadRequest, "7"},
		"type of another case": {`{"t":"PING","id":"7"}`, CodeUnknownType, "7"},
	} {
		cmd, err := Decode([]byte(c.in))
		if err == nil || err.Code != c.want || cmd.ID != c.id || err.Text == "" {
			t.Errorf("%s: %+v, %v; want %s for request %q", name, cmd, err, c.want, c.id)
		}
	}
}

func manyIDs(n int) string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = strings.Repeat("x", i+1)
	}
	b, _ := json.Marshal(ids)
	return string(b)
}

func manySeen(n int) string {
	seen := make(map[string]uint64)
	for i := range n {
		seen[strings.Repeat("c", i+1)] = 1
	}
	b, _ := json.Marshal(seen)
	return string(b)
}

func TestRefusalNamesTheShapeInTermsOfJSON(t *testing.T) {
	for in, want := range map[string]string{
		`[]`:                                  "the value must be an object",
		`{"t":5,"id":"7"}`:                    `field "t" must be a string`,
		`{"t":"ping","id":7`:                  "not valid JSON at byte 18",
		`{"t":"typing","c":"k","d":{"on":1}}`: `field "on" must be true or false`,
		`{"t":"sync","id":"7","c":"k","d":{"after":-1}}`:     `field "after" must be a whole number from 0`,
		`{"t":"sync","id":"7","c":"k","d":{"limit":"x"}}`:    `field "limit" must be a whole number`,
		`{"t":"hello","id":"7","d":{"token":"a","seen":[]}}`: `field "seen" must be an object`,
	} {
		if _, err := Decode([]byte(in)); err == nil || err.Text != want {
			t.Errorf("%s: %+v, want %q", in, err, want)
		}
	}
}

func TestFrames(t *testing.T) {
	for name, c := range map[string]struct {
		frame []byte
		want  string
	}{
		"reply":     {Reply("ok", "1", "k", Ack{ID: "m", S: 5, Time: 9}), `{"t":"ok","re":"1","c":"k","d":{"id":"m","s":5,"time":9,"dup":false}}`},
		"event":     {Event("ev.queue", "k", 0, QueuePosition{Position: 2}), `{"t":"ev.queue","c":"k","d":{"position":2}}`},
		"durable":   {Event("ev.msg", "k", 3, Msg{ID: "m", Kind: "text", From: Party{Kind: "bot"}, Body: "<b>", Time: 1}), `{"t":"ev.msg","c":"k","s":3,"d":{"id":"m","kind":"text","from":{"kind":"bot"},"body":"\u003cb\u003e","time":1}}`},
		"error":     {Reply("err", "", "", &Error{Code: CodeBusy, Text: "later", RetryMS: 500}), `{"t":"err","d":{"code":"busy","text":"later","retry_ms":500}}`},
		"no garble": {Event("ev.msg", "k", 1, Msg{Body: "\xff"}), `{"t":"ev.msg","c":"k","s":1,"d":{"id":"","kind":"","from":{"kind":""},"body":"\ufffd","time":0}}`},
	} {
		if string(c.frame) != c.want {
			t.Errorf("%s: %s", name, c.frame)
		}
	}
}

// Whatever arrives, Decode answers: no panic, a valid command within its limits or an error with a code and a text.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{"t":"hello","id":"1","d":{"token":"x","seen":{"c1":5}}}`, `{"t":"msg.send","id":"1","c":"k","d":{"client_id":"` + uuid1 + `","body":"hi","payload":"p"}}`,
		`{"t":"sync","id":"1","c":"k","d":{"after":7,"limit":9}}`, `{"t":"typing","c":"k","d":{"on":true}}`, `{"t":"take","id":"1","c":"k","d":{"rev":4}}`,
		`{"t":"status","id":"1","d":{"status":"busy","accepting":false,"agent":"a"}}`, `{"t":"agents","id":"1"}`, `{"t":"assign","id":"1","c":"k","d":{"agent":"a","rev":2}}`,
		`{"t":"conv.leave","id":"1","d":{"client_id":"` + uuid1 + `","email":"a@b.c","body":"hi"}}`,
		`{"t":"conv.handoff","id":"1","c":"k","d":{"reason":"x"}}`, `{"t":"watch","id":"1","c":"k"}`, `{"t":"unwatch","id":"1","c":"k"}`,
		`{"t":"transfer.accept","id":"1","c":"k"}`, `{"t":"transfer.decline","id":"1","c":"k"}`, `{"t":"take","id":"1","c":"k","d":{"force":true}}`,
		`{"t":"receipt","c":"k","d":{"delivered":9,"read":7}}`, `{"t":"search","id":"1","d":{"q":"退款","limit":5}}`, `{"t":"tag","id":"1","c":"k","d":{"add":["b"," a"],"remove":["c"]}}`,
		`{"t":"contact.patch","id":"1","d":{"contact":"a","name":" Ann","attributes":{"k":"v"}}}`, `{"t":"conv.rate","id":"1","c":"k","d":{"score":5,"comment":"x"}}`,
		`{"t":"conv.open","id":"1","d":{"wants":"human"}}`, `{"t":"conv.open","id":"1","d":{"fields":{"email":"a@b.c"},"consent":true}}`, `{"t":"conv.close","id":"1","c":"k"}`, `{"t":"msg.send","id":"1","c":"k","d":{"client_id":"` + uuid1 + `","kind":"file","attachments":["a","b"]}}`,
		`{"t":"file.links","id":"1","d":{"ids":["a"]}}`, `{"t":"ping","id":"1"}`, `{"t":null}`, `[[[[`, "\xff", `{"t":"ping","id":"\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cmd, err := Decode(data)
		if err != nil {
			if err.Code == "" || err.Text == "" || !utf8.ValidString(err.Text) {
				t.Fatalf("error %+v", err)
			}
			return
		}
		if len(cmd.ID) > maxIDBytes || len(cmd.Conv) > maxIDBytes || cmd.Payload == nil {
			t.Fatalf("%+v", cmd)
		}
		switch p := cmd.Payload.(type) {
		case *Send:
			if utf8.RuneCountInString(p.Body) > MaxTextChars || len(p.ClientID) != 36 || !utf8.ValidString(p.Body) {
				t.Fatalf("%+v", p)
			}
		case *Search:
			if p.Limit < 1 || p.Limit > MaxSearchHits || utf8.RuneCountInString(p.Q) > MaxQueryChars {
				t.Fatalf("%+v", p)
			}
		case *Tag:
			for _, tag := range append(p.Add, p.Remove...) {
				if tag == "" || utf8.RuneCountInString(tag) > MaxTagChars || strings.ContainsAny(tag, ",\n") {
					t.Fatalf("%+v", p)
				}
			}
		case *Sync:
			if p.Limit < 1 || p.Limit > MaxSyncEvents {
				t.Fatalf("%+v", p)
			}
		case *Hello:
			if len(p.Seen) > MaxSeen || (p.Token == "") == (p.Ticket == "") {
				t.Fatalf("%+v", p)
			}
		}
		if !json.Valid(Reply("err", cmd.ID, cmd.Conv, &Error{Code: CodeInternal, Text: cmd.Type})) {
			t.Fatal("the reply is not JSON")
		}
	})
}
