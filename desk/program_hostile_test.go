package desk

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/go-eddy/eddy/desk/api"
	"github.com/go-eddy/eddy/desk/perm"
	"github.com/go-eddy/eddy/desk/proto"
	"github.com/go-eddy/eddy/internal/testkit"
)

// Hostile calls get a clear answer, and change nothing.
func TestHostileProgram(t *testing.T) {
	s := serve(t, testOptions(t))
	p := s.program(perm.KeyScopes()...)
	conv, contact := waiting(t, s.desk)
	const head = "/api/v1/conversations"
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		path string
		want int
		text string
	}{
		{head + "?cursor=" + long, 400, "5000 bytes, the limit is 100"},
		{head + "?cursor=x", 400, "not one of the page before"},
		{head + "?cursor=%00.%ff", 400, "not one of the page before"},
		{head + "?cursor=zzzzzzzzzzzzzzzzzzzzzzzz.x", 400, "not one of the page before"},
		{head + "?limit=0", 400, "1 to 100"},
		{head + "?limit=101", 400, "0 to 100"},
		{head + "?limit=-1", 400, "0 to 100"},
		{head + "?limit=99999999999999999999999", 400, "0 to 100"},
		{head + "?from=x", 400, "from"},
		{head + "?to=-1", 400, "to"},
		{head + "?state=open", 400, "bot, queued, assigned, deferred or closed"},
		{head + "?sort=up", 400, "sort"},
		{head + "?state=bot&state=closed", 400, "state"},
		{head + "/none", 404, "no such conversation"},
		{head + "/" + contact, 404, "no such conversation"},
		{head + "/" + long, 404, "no such conversation"},
		{head + "/%00%ff", 404, "no such conversation"},
		{head + "/" + contact + "/events", 404, "no such conversation"},
		{head + "/" + conv + "/events?after=18446744073709551615", 400, "after"},
		{head + "/" + conv + "/events?limit=201", 400, "0 to 200"},
		{"/api/v1/contacts/" + conv, 404, "no such contact"},
		{"/api/v1/reports?by=all&from=0&to=1", 400, "by"},
		{"/api/v1/reports?by=day&from=0&to=99999999999999", 400, "400 days"},
		{"/api/v1/reports?by=day&from=0&to=1&format=csv", 400, "format"},
		{"/api/v1/reports?by=day&from=0&to=1&site=none", 400, `site is \"none\"`},
		{"/api/v1/reports?by=day&from=0&to=1&group=none", 400, `group is \"none\"`},
		{"/api/v1/reports?by=day&from=0&to=1&agent=none", 400, `agent is \"none\"`},
		{"/api/v1/reports?by=day&from=0&to=1&tag=" + strings.Repeat("t", 41), 400, "tag has 41 characters, the limit is 40"},
		{"/api/v1/reports?by=day&from=0&to=1&tag=ann%40example.com", 400, "masked"},
	} {
		status, data := p.ask("GET", c.path, "")
		if status != c.want || !strings.Contains(string(data), c.text) {
			t.Errorf("%.80s: %d %.300s", c.path, status, data)
		}
	}
	most := strings.Repeat("浏", proto.MaxTextChars)
	if sent := p.send(conv, strings.Repeat("k", 128), most); sent.Seq == 0 {
		t.Errorf("%+v", sent)
	}
	messages, tags := head+"/"+conv+"/messages", head+"/"+conv+"/tags"
	for _, c := range []struct {
		path, body, key, kind string
		want                  int
		text                  string
	}{
		{messages, `{"text":"x"}`, "", "", 400, "has 0 characters, it must have 1 to 128"},
		{messages, `{"text":"x"}`, strings.Repeat("k", 129), "", 400, "has 129 characters"},
		{messages, `{"text":"x"}`, "a\tb", "", 400, "visible ASCII"},
		{messages, `{"text":" "}`, "1", "", 400, "text is empty"},
		{messages, `{}`, "1", "", 400, "text is empty"},
		{messages, `null`, "1", "", 400, "text is empty"},
		{messages, `{"text":1}`, "1", "", 400, "not the JSON"},
		{messages, `{"text":"x"`, "1", "", 400, "not the JSON"},
		{messages, `{"text":"` + most + `x"}`, "1", "", 413, "8001 characters, the limit is 8000"},
		{messages, `{"text":"` + strings.Repeat("x", 64<<10) + `"}`, "1", "", 413, "64 KiB"},
		{messages, `{"text":"x"}`, "1", "text/plain", 415, "application/json"},
		{head + "/none/messages", `{"text":"x"}`, "1", "", 404, "no such conversation"},
		{head + "/" + contact + "/messages", `{"text":"x"}`, "1", "", 404, "no such conversation"},
		{tags, `{}`, "", "", 400, "add or remove"},
		{tags, `{"add":["a,b"]}`, "", "", 400, "comma"},
		{tags, `{"add":["` + strings.Repeat("x", 41) + `"]}`, "", "", 400, "40 characters"},
		{head + "/none/tags", `{"add":["x"]}`, "", "", 404, "no such conversation"},
	} {
		headers := []string{"Idempotency-Key", c.key}
		if c.kind != "" {
			headers = append(headers, "Content-Type", c.kind)
		}
		status, data := p.ask("POST", c.path, c.body, headers...)
		if status != c.want || !strings.Contains(string(data), c.text) {
			t.Errorf("%s %.60s: %d %.300s", c.path, c.body, status, data)
		}
	}
	if c := get[api.Detail](p, head+"/"+conv); c.Last != 2 || len(c.Tags) != 0 || c.State != "queued" {
		t.Errorf("it is %+v now", c)
	}
}

// endlessBody never ends.
type endlessBody struct{ sent int }

func (e *endlessBody) Read(b []byte) (int, error) {
	e.sent += len(b)
	return copy(b, bytes.Repeat([]byte("x"), len(b))), nil
}

// A body that never ends is cut off, and one that stalls holds no place.
func TestProgramBodiesThatNeverEnd(t *testing.T) {
	s := serve(t, testOptions(t))
	p := s.program(perm.KeySend)
	conv, _ := waiting(t, s.desk)
	path := "/api/v1/conversations/" + conv + "/messages"
	req, err := http.NewRequestWithContext(s.ctx, "POST", s.base.Load().(string)+path, &endlessBody{})
	s.ok(err)
	req.ContentLength = -1
	req.Header.Set("Authorization", "Bearer "+p.secret)
	req.Header.Set("Content-Type", "application/json")
	if resp, err := p.http.Do(req); err == nil { // else the connection was closed under the body
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("endless: %s", resp.Status)
		}
		s.ok(resp.Body.Close())
	}
	addr := s.desk.Addr().String()
	before := s.desk.http.Stats().Requests
	const stalled = 20 // more than there are places
	for range stalled {
		c, err := net.Dial("tcp", addr)
		s.ok(err)
		defer c.Close()
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nIdempotency-Key: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", path, addr, p.secret)
	}
	testkit.Eventually(t, "all of them", func() bool { return s.desk.http.Stats().Requests >= before+stalled })
	if sent := p.send(conv, "1", "hello"); sent.Seq != 2 {
		t.Errorf("%+v", sent)
	}
}
