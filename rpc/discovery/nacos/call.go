package nacos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

// notRegistered is the code of a beat of an instance that Nacos does not know.
const notRegistered = 20404

// refusal is an answer with another status than 200.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return fmt.Sprintf("nacos: status %d: %s", e.status, e.text) }

// call makes a request, at the next server if one fails, and reads its JSON into answer, unless that is nil, or a *string for the answer as it is.
func (r *Registry) call(ctx context.Context, method, path string, form url.Values, answer any) error {
	var err error
	for range r.o.Servers {
		if err = r.ask(ctx, method, path, form, answer); err == nil || ctx.Err() != nil {
			return err
		}
		if refused, ok := errors.AsType[*refusal](err); ok && refused.status < 500 {
			return err // The others would say the same.
		}
		r.mu.Lock()
		r.at = (r.at + 1) % len(r.o.Servers)
		r.mu.Unlock()
	}
	return err
}

// ask makes a request at one server, after a login if it asks for that.
func (r *Registry) ask(ctx context.Context, method, path string, form url.Values, answer any) error {
	r.mu.Lock()
	server, token := r.o.Servers[r.at], r.token
	r.mu.Unlock()
	err := r.send(ctx, method, server+r.o.Path+path, form, token, answer)
	refused, ok := errors.AsType[*refusal](err)
	if !ok || r.o.Username == "" || refused.status != http.StatusForbidden && refused.status != http.StatusUnauthorized {
		return err
	}
	var login struct {
		Token string `json:"accessToken"`
	}
	credentials := url.Values{"username": {r.o.Username}, "password": {r.o.Password}}
	if err := r.send(ctx, http.MethodPost, server+r.o.Path+"/v1/auth/login", credentials, "", &login); err != nil {
		return fmt.Errorf("nacos: login as %s: %w", r.o.Username, err)
	}
	r.mu.Lock()
	r.token = login.Token
	r.mu.Unlock()
	return r.send(ctx, method, server+r.o.Path+path, form, login.Token, answer)
}

func (r *Registry) send(ctx context.Context, method, address string, form url.Values, token string, answer any) error {
	query := ""
	if token != "" {
		query = "?" + url.Values{"accessToken": {token}}.Encode()
	}
	var body io.Reader
	switch {
	case method == http.MethodPost || method == http.MethodPut:
		body = strings.NewReader(form.Encode())
	case query == "":
		query = "?" + form.Encode()
	default:
		query += "&" + form.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, address+query, body)
	if err != nil {
		return fmt.Errorf("nacos: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := r.http.Do(req)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the address, which may have the token
		}
		return fmt.Errorf("nacos: %s %s: %w", method, address, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("nacos: %s %s: %w", method, address, err)
	case len(text) > maxAnswer:
		return fmt.Errorf("nacos: %s %s: an answer of more than %d bytes", method, address, maxAnswer)
	case resp.StatusCode != http.StatusOK:
		return &refusal{resp.StatusCode, fmt.Sprintf("%.200s", text)}
	case answer == nil:
		return nil
	}
	if as, ok := answer.(*string); ok {
		*as = string(text)
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("nacos: %s %s: %w", method, address, err)
	}
	return nil
}

// entry is an instance that is kept while it is registered.
type entry struct {
	r    *Registry
	form url.Values
	host host
}

// keep is that of keep.Holding.
func (e *entry) keep(ctx context.Context, has func()) error {
	for {
		if err := e.register(ctx); err != nil {
			return err
		}
		has()
		for known := true; known; {
			if err := keep.Pause(ctx, e.r.beats); err != nil {
				return err
			}
			var err error
			if known, err = e.beat(ctx); err != nil {
				return err
			}
		}
	}
}

func (e *entry) register(ctx context.Context) error {
	metadata, err := json.Marshal(e.host.Metadata)
	if err != nil {
		return fmt.Errorf("nacos: %w", err)
	}
	return e.r.call(ctx, http.MethodPost, "/v1/ns/instance", e.with("metadata", string(metadata), "enabled", "true", "healthy", "true",
		"weight", strconv.FormatFloat(*e.host.Weight, 'f', -1, 64)), nil)
}

// beat tells that the instance is well, and reports whether Nacos knows it.
func (e *entry) beat(ctx context.Context) (known bool, err error) {
	beat, err := json.Marshal(struct {
		host
		Cluster   string        `json:"cluster"`
		Service   string        `json:"serviceName"`
		Scheduled bool          `json:"scheduled"`
		Period    time.Duration `json:"period"` // milliseconds
	}{e.host, e.form.Get("clusterName"), e.form.Get("groupName") + "@@" + e.form.Get("serviceName"), true, e.r.beats / time.Millisecond})
	if err != nil {
		return false, fmt.Errorf("nacos: %w", err)
	}
	var answer struct {
		Code int `json:"code"`
	}
	err = e.r.call(ctx, http.MethodPut, "/v1/ns/instance/beat", e.with("beat", string(beat)), &answer)
	if refused, ok := errors.AsType[*refusal](err); ok && refused.status == http.StatusNotFound {
		return false, nil
	}
	return answer.Code != notRegistered, err
}

// remove is that of keep.Holding.
func (e *entry) remove(ctx context.Context) error {
	return e.r.call(ctx, http.MethodDelete, "/v1/ns/instance", e.form, nil)
}

// with returns the form with more pairs.
func (e *entry) with(pairs ...string) url.Values {
	form := make(url.Values, len(e.form)+len(pairs)/2)
	for key, values := range e.form {
		form[key] = values
	}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return form
}
