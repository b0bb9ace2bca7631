package desktest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"

	"github.com/coder/websocket"

	"github.com/go-eddy/eddy/desk/proto"
)

// Web talks to a running Desk over HTTP and WebSocket, as a program without a browser does (no Origin header).
type Web struct {
	Base  func() string // such as "http://127.0.0.1:8080"; called for every connection
	Polls bool          // clients use long polls instead of WebSockets
	http  *http.Client
}

// NewWeb returns a Web with its own cookies and connections. Base may change when the server is restarted.
func NewWeb(base func() string) *Web {
	jar, err := cookiejar.New(nil)
	if err != nil {
		panic(err) // cannot happen without options
	}
	return &Web{Base: base, http: &http.Client{Jar: jar, Transport: &http.Transport{}}}
}

// CloseIdle closes kept connections.
func (w *Web) CloseIdle() { w.http.CloseIdleConnections() }

// Post sends v as JSON to path, decodes a 2xx answer into out and returns other answers as *proto.Error.
func (w *Web) Post(ctx context.Context, path string, v, out any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.Base()+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := w.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		e := &proto.Error{}
		if json.Unmarshal(data, e) != nil {
			e.Text = fmt.Sprintf("%s: %.200s", resp.Status, data)
		}
		return e
	}
	if out == nil || len(data) == 0 {
		return nil
	}
	return json.Unmarshal(data, out)
}

// PostForm sends a form of a page and follows where it leads. Any answer counts.
func (w *Web) PostForm(ctx context.Context, path string, v url.Values) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.Base()+path, strings.NewReader(v.Encode()))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := w.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// Customer returns a client for a new visitor of a site. The visitor keeps its token over reconnects.
func (w *Web) Customer(site string) *Client {
	return w.CustomerBy(site, new(Visitor))
}

// Visitor is the identity of a customer's client, filled in when it first connects.
type Visitor struct {
	mu    sync.Mutex
	token string
}

// Token returns the visitor's token, "" before the first connection.
func (v *Visitor) Token() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.token
}

// CustomerBy is Customer with an identity that the caller can look at, or share between clients.
func (w *Web) CustomerBy(site string, v *Visitor) *Client {
	return New(func(ctx context.Context) (Transport, proto.Hello, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.token == "" {
			var s struct{ Token string }
			if err := w.Post(ctx, "/api/v1/widget/session", map[string]string{"site": site}, &s); err != nil {
				return nil, proto.Hello{}, err
			}
			v.token = s.Token
		}
		t, err := w.dial(ctx)
		return t, proto.Hello{Token: v.token, Locale: "en"}, err
	})
}

// Agent returns a client for an agent, who logs in once and fetches a ticket for each connection.
func (w *Web) Agent(login, password string) *Client {
	var mu sync.Mutex
	in := false
	return New(func(ctx context.Context) (Transport, proto.Hello, error) {
		mu.Lock()
		defer mu.Unlock()
		if !in {
			if err := w.Post(ctx, "/api/v1/agent/login", map[string]string{"login": login, "password": password}, nil); err != nil {
				return nil, proto.Hello{}, err
			}
			in = true
		}
		var t struct{ Ticket string }
		if err := w.Post(ctx, "/api/v1/agent/ticket", nil, &t); err != nil {
			return nil, proto.Hello{}, err
		}
		conn, err := w.dial(ctx)
		return conn, proto.Hello{Ticket: t.Ticket, Locale: "en"}, err
	})
}

func (w *Web) dial(ctx context.Context) (Transport, error) {
	if w.Polls {
		return DialPoll(ctx, w.Base(), nil)
	}
	return Dial(ctx, w.Base(), nil)
}

// Dial opens a WebSocket to a Desk, with extra request headers if given.
func Dial(ctx context.Context, base string, header http.Header) (Transport, error) {
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(base, "http")+"/ws", &websocket.DialOptions{
		Subprotocols: []string{proto.Subprotocol}, HTTPHeader: header, HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
	})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(-1)
	return &socket{conn}, nil
}

// socket is a WebSocket as a Transport.
type socket struct{ conn *websocket.Conn }

func (s *socket) Write(ctx context.Context, frame []byte) error {
	return s.conn.Write(ctx, websocket.MessageText, frame)
}

func (s *socket) Read(ctx context.Context) ([]byte, error) {
	_, data, err := s.conn.Read(ctx)
	return data, err
}

func (s *socket) Close() error { return s.conn.CloseNow() }
