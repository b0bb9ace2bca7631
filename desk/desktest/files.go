package desktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/go-eddy/eddy/desk/proto"
)

// Refused is the answer to an upload that was not taken.
type Refused struct {
	Status  int
	Problem proto.Error
}

// Error implements error.
func (r *Refused) Error() string { return fmt.Sprintf("%d: %s", r.Status, r.Problem.Text) }

// Upload uploads a file to a conversation, as the visitor of a token, or if that is empty as the agent who is logged in
// here. With a size below 0 the body is sent in chunks. A refused file is a *Refused.
func (w *Web) Upload(ctx context.Context, token, conv, name string, body io.Reader, size int64) (f proto.File, err error) {
	path := "/api/v1/widget/uploads"
	if token == "" {
		path = "/api/v1/agent/uploads"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.Base()+path+"?"+url.Values{"conv": {conv}, "name": {name}}.Encode(), body)
	if err != nil {
		return f, err
	}
	req.ContentLength = size
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return f, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return f, err
	}
	if resp.StatusCode != http.StatusCreated {
		r := &Refused{Status: resp.StatusCode}
		if err := json.Unmarshal(data, &r.Problem); err != nil {
			return f, errors.Join(fmt.Errorf("desktest: %s: %.200s", resp.Status, data), err)
		}
		return f, r
	}
	return f, json.Unmarshal(data, &f)
}

// Get fetches an address of the server, with extra request headers if given.
func (w *Web) Get(ctx context.Context, path string, header http.Header) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.Base()+path, nil)
	if err != nil {
		return nil, nil, err
	}
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := w.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	return resp, data, err
}

// SendFiles sends a message with uploaded files and returns its ack.
func (c *Client) SendFiles(ctx context.Context, conv, body string, ids ...string) (ack proto.Ack, err error) {
	f, err := c.retry(ctx, "msg.send", conv, proto.Send{ClientID: uuid.NewString(), Kind: "file", Body: body, Attachments: ids})
	if err != nil {
		return ack, err
	}
	f.Decode(&ack)
	return ack, nil
}

// Links asks for the addresses of files.
func (c *Client) Links(ctx context.Context, ids ...string) (l proto.Links, err error) {
	f, err := c.retry(ctx, "file.links", "", proto.FileLinks{IDs: ids})
	if err != nil {
		return l, err
	}
	f.Decode(&l)
	return l, nil
}
