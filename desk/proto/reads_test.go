package proto

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestDecodeReads(t *testing.T) {
	for name, c := range map[string]struct {
		in   string
		want Command
	}{
		"receipt": {`{"t":"receipt","c":"k","d":{"delivered":9,"read":7}}`, Command{Type: "receipt", Conv: "k", Payload: &Receipt{Delivered: 9, Read: 7}}},
		"history": {`{"t":"history","id":"1","d":{"contact":"a","cursor":"x"}}`, Command{Type: "history", ID: "1", Payload: &History{Contact: "a", Cursor: "x"}}},
		"list": {`{"t":"history","id":"1","d":{"in":{"state":"open","tag":" vip ","agent":"a","group":"g","site":"shop","from":1,"to":2,"score_from":1,"score_to":5}}}`,
			Command{Type: "history", ID: "1", Payload: &History{In: Filter{State: "open", Tag: "vip", Agent: "a", Group: "g", Site: "shop", From: 1, To: 2, ScoreFrom: 1, ScoreTo: 5}}}},
		"snoozed":      {`{"t":"history","id":"1","d":{"in":{"state":"snoozed"}}}`, Command{Type: "history", ID: "1", Payload: &History{In: Filter{State: "snoozed"}}}},
		"everything":   {`{"t":"history","id":"1"}`, Command{Type: "history", ID: "1", Payload: &History{}}},
		"search":       {`{"t":"search","id":"1","d":{"q":"退款"}}`, Command{Type: "search", ID: "1", Payload: &Search{Q: "退款", Limit: defaultHits}}},
		"search by 50": {`{"t":"search","id":"1","d":{"q":"","limit":50}}`, Command{Type: "search", ID: "1", Payload: &Search{Limit: 50}}},
		"canned":       {`{"t":"canned.list","id":"1"}`, Command{Type: "canned.list", ID: "1", Payload: &CannedList{}}},
		"contact":      {`{"t":"contact.get","id":"1","d":{"contact":"a"}}`, Command{Type: "contact.get", ID: "1", Payload: &ContactGet{Contact: "a"}}},
		"patch": {`{"t":"contact.patch","id":"1","d":{"contact":"a","name":" Ann\u2003","attributes":{"e.mail_1-x":" v ","gone":""}}}`,
			Command{Type: "contact.patch", ID: "1", Payload: &ContactPatch{Contact: "a", Name: "Ann", Attributes: map[string]string{"e.mail_1-x": "v", "gone": ""}}}},
		"block":    {`{"t":"contact.block","id":"1","d":{"contact":"a","blocked":true,"reason":"spam"}}`, Command{Type: "contact.block", ID: "1", Payload: &ContactBlock{Contact: "a", Blocked: true, Reason: "spam"}}},
		"tag":      {`{"t":"tag","id":"1","c":"k","d":{"add":["b"," a","b"],"remove":["c"]}}`, Command{Type: "tag", ID: "1", Conv: "k", Payload: &Tag{Add: []string{"a", "b"}, Remove: []string{"c"}}}},
		"priority": {`{"t":"priority","id":"1","c":"k","d":{"priority":"urgent"}}`, Command{Type: "priority", ID: "1", Conv: "k", Payload: &Priority{Priority: "urgent"}}},
		"rate":     {`{"t":"conv.rate","id":"1","c":"k","d":{"score":5,"comment":"ok\n好"}}`, Command{Type: "conv.rate", ID: "1", Conv: "k", Payload: &Rate{Score: 5, Comment: "ok\n好"}}},
	} {
		got, err := Decode([]byte(c.in))
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func TestDecodeReadsRefuses(t *testing.T) {
	long := func(n int) string { return strings.Repeat("界", n) }
	var attributes, tags []string
	for i := range 33 {
		attributes = append(attributes, fmt.Sprintf(`"k%d":"v"`, i))
		tags = append(tags, fmt.Sprintf(`"t%d"`, i))
	}
	for name, c := range map[string]struct {
		t, d string
		want Code
	}{
		"receipt below zero":     {"receipt", `{"read":-1}`, CodeBadRequest},
		"snooze into the past":   {"snooze", `{"until":-1}`, CodeBadRequest},
		"priority unknown":       {"priority", `{"priority":"soon"}`, CodeBadRequest},
		"receipt not whole":      {"receipt", `{"read":1.5}`, CodeBadRequest},
		"receipt too large":      {"receipt", `{"read":18446744073709551616}`, CodeBadRequest},
		"history long contact":   {"history", `{"contact":"` + strings.Repeat("x", 65) + `"}`, CodeBadRequest},
		"history unknown state":  {"history", `{"in":{"state":"gone"}}`, CodeBadRequest},
		"history long tag":       {"history", `{"in":{"tag":"` + long(41) + `"}}`, CodeBadRequest},
		"history long agent":     {"history", `{"in":{"agent":"` + strings.Repeat("x", 65) + `"}}`, CodeBadRequest},
		"history long group":     {"history", `{"in":{"group":"` + strings.Repeat("x", 65) + `"}}`, CodeBadRequest},
		"history long site":      {"history", `{"in":{"site":"` + strings.Repeat("x", 65) + `"}}`, CodeBadRequest},
		"history below zero":     {"history", `{"in":{"from":-1}}`, CodeBadRequest},
		"history rated below":    {"history", `{"in":{"score_from":-1}}`, CodeBadRequest},
		"history rated above":    {"history", `{"in":{"score_to":6}}`, CodeBadRequest},
		"history rated backward": {"history", `{"in":{"score_from":4,"score_to":2}}`, CodeBadRequest},
		"history ends too early": {"history", `{"in":{"from":5,"to":5}}`, CodeBadRequest},
		"search unknown state":   {"search", `{"q":"x","in":{"state":"gone"}}`, CodeBadRequest},
		"history long cursor":    {"history", `{"contact":"a","cursor":"` + strings.Repeat("x", 101) + `"}`, CodeBadRequest},
		"search too long":        {"search", `{"q":"` + long(201) + `"}`, CodeTooLarge},
		"search limit":           {"search", `{"q":"x","limit":51}`, CodeBadRequest},
		"search negative":        {"search", `{"q":"x","limit":-1}`, CodeBadRequest},
		"search long cursor":     {"search", `{"q":"x","cursor":"` + strings.Repeat("x", 101) + `"}`, CodeBadRequest},
		"canned too long":        {"canned.list", `{"q":"` + long(101) + `"}`, CodeBadRequest},
		"canned long locale":     {"canned.list", `{"locale":"` + strings.Repeat("x", 65) + `"}`, CodeBadRequest},
		"contact of nobody":      {"contact.get", `{}`, CodeBadRequest},
		"contact long id":        {"contact.get", `{"contact":"` + strings.Repeat("x", 65) + `"}`, CodeBadRequest},
		"patch of nobody":        {"contact.patch", `{"name":"x"}`, CodeBadRequest},
		"patch long name":        {"contact.patch", `{"contact":"a","name":"` + long(81) + `"}`, CodeBadRequest},
		"patch two lines":        {"contact.patch", `{"contact":"a","name":"x\ny"}`, CodeBadRequest},
		"patch many":             {"contact.patch", `{"contact":"a","attributes":{` + strings.Join(attributes, ",") + `}}`, CodeBadRequest},
		"patch empty key":        {"contact.patch", `{"contact":"a","attributes":{"":"v"}}`, CodeBadRequest},
		"patch strange key":      {"contact.patch", `{"contact":"a","attributes":{"A b":"v"}}`, CodeBadRequest},
		"patch long key":         {"contact.patch", `{"contact":"a","attributes":{"` + strings.Repeat("x", 41) + `":"v"}}`, CodeBadRequest},
		"patch long value":       {"contact.patch", `{"contact":"a","attributes":{"k":"` + long(501) + `"}}`, CodeBadRequest},
		"patch fields":           {"contact.patch", `{"contact":"a","fields":{` + strings.Join(attributes[:31], ",") + `}}`, CodeBadRequest},
		"patch field key":        {"contact.patch", `{"contact":"a","fields":{"A b":"v"}}`, CodeBadRequest},
		"patch field number":     {"contact.patch", `{"contact":"a","fields":{"k":1}}`, CodeBadRequest},
		"patch number":           {"contact.patch", `{"contact":"a","attributes":{"k":1}}`, CodeBadRequest},
		"block of nobody":        {"contact.block", `{"blocked":true}`, CodeBadRequest},
		"block long reason":      {"contact.block", `{"contact":"a","reason":"` + long(201) + `"}`, CodeBadRequest},
		"no tag":                 {"tag", `{}`, CodeBadRequest},
		"empty tag":              {"tag", `{"add":[" "]}`, CodeBadRequest},
		"tag with comma":         {"tag", `{"remove":["a,b"]}`, CodeBadRequest},
		"long tag":               {"tag", `{"add":["` + long(41) + `"]}`, CodeBadRequest},
		"tag with line":          {"tag", `{"add":["a\u0085b"]}`, CodeBadRequest},
		"many tags":              {"tag", `{"add":[` + strings.Join(tags, ",") + `]}`, CodeBadRequest},
		"no score":               {"conv.rate", `{}`, CodeBadRequest},
		"score too high":         {"conv.rate", `{"score":6}`, CodeBadRequest},
		"long comment":           {"conv.rate", `{"score":5,"comment":"` + long(1001) + `"}`, CodeTooLarge},
		"rate without a message": {"conv.rate", `"5"`, CodeBadRequest},
	} {
		in := `{"t":"` + c.t + `","id":"7","c":"k","d":` + c.d + `}`
		cmd, err := Decode([]byte(in))
		if err == nil || err.Code != c.want || cmd.ID != "7" || err.Text == "" {
			t.Errorf("%s: %+v, %v; want %s", name, cmd, err, c.want)
		}
	}
	for _, in := range []string{`{"t":"receipt"}`, `{"t":"tag","id":"7","d":{"add":["x"]}}`, `{"t":"conv.rate","id":"7","d":{"score":5}}`, `{"t":"search","d":{"q":"x"}}`} {
		if _, err := Decode([]byte(in)); err == nil || err.Code != CodeBadRequest {
			t.Errorf("%s: %v", in, err)
		}
	}
}
