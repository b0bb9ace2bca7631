package kubernetes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

const (
	requestTimeout = 10 * time.Second // of a list's page, and until a watch begins
	watchTime      = 4 * time.Minute  // at least; Kubernetes ends it and another one goes on where it was
	pageSize       = 500
	maxSlices      = 4 * discovery.MaxInstances
	maxAnswer      = 32 << 20 // of a page in bytes
	maxEvent       = 4 << 20  // of one event in bytes
)

// errGone says that Kubernetes does not have the changes since a version any more.
var errGone = errors.New("kubernetes: 410 Gone")

// resolver is the discovery.Resolver of one service.
type resolver struct {
	c             *Cluster
	service, port string
}

// Watch implements discovery.Resolver.
func (v *resolver) Watch(ctx context.Context, tell func([]discovery.Instance)) error {
	if !label(v.service) {
		return fmt.Errorf("kubernetes: service %q: it must be the name of a service", v.service)
	}
	return v.c.keep.Watch(ctx, func(ctx context.Context) error {
		w := &watch{v: v, teller: keep.Teller{Service: discovery.Service{Interface: v.service}, Log: v.c.keep.Log(), To: tell}}
		for {
			if err := w.list(ctx); err != nil {
				return err
			}
			for {
				err := w.follow(ctx)
				if err == nil {
					err = keep.Pause(ctx, keep.Settle) // A server that ends each watch at once is not asked without a pause.
				}
				if errors.Is(err, errGone) {
					break
				}
				if err != nil {
					return err
				}
			}
			if err := keep.Pause(ctx, keep.Settle); err != nil {
				return err
			}
		}
	})
}

// watch is one run of a resolver. One goroutine uses it.
type watch struct {
	v       *resolver
	teller  keep.Teller
	slices  map[string]slice
	version string // of slices
}

func (w *watch) tell() error { return w.teller.Tell(entries(w.slices, w.v.port)) }

// list reads all slices and tells them.
func (w *watch) list(ctx context.Context) error {
	all, next := map[string]slice{}, ""
	for {
		page, err := w.page(ctx, next)
		if err != nil {
			return err
		}
		for _, s := range *page.Items {
			all[s.Metadata.Name] = s
		}
		if len(all) > maxSlices {
			return fmt.Errorf("kubernetes: %s has more than %d EndpointSlices", w.v.service, maxSlices)
		}
		w.version = page.Metadata.ResourceVersion
		if page.Metadata.Continue == "" || page.Metadata.Continue == next {
			break
		}
		next = page.Metadata.Continue
	}
	w.slices = all
	return w.tell()
}

func (w *watch) page(ctx context.Context, next string) (*list, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if next != "" {
		query.Set("continue", next)
	}
	body, err := w.v.get(ctx, query)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("kubernetes: listing %s: %w", w.v.service, err)
	}
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("kubernetes: listing %s: an answer of more than %d bytes", w.v.service, maxAnswer)
	}
	page := new(list)
	if err := json.Unmarshal(text, page); err != nil {
		return nil, fmt.Errorf("kubernetes: listing %s: %w", w.v.service, err)
	}
	if page.Items == nil {
		return nil, fmt.Errorf("kubernetes: listing %s: an answer without items", w.v.service)
	}
	return page, nil
}

// event is a line of a watch.
type event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// follow tells changes, which it collects for a moment, until the watch ends. The error is errGone when all must be read again.
func (w *watch) follow(ctx context.Context) error {
	seconds := watchTime + time.Duration(rand.Int64N(int64(time.Minute)))
	ctx, cancel := context.WithTimeout(ctx, seconds+time.Minute) // in case that it does not end by itself
	defer cancel()
	body, err := w.v.get(ctx, url.Values{"watch": {"1"}, "allowWatchBookmarks": {"true"}, "resourceVersion": {w.version}, "timeoutSeconds": {strconv.Itoa(int(seconds / time.Second))}})
	if err != nil {
		return err
	}
	lines, ended := make(chan []byte), make(chan error, 1)
	go func() {
		defer close(lines)
		ended <- scan(ctx, body, lines)
	}()
	defer func() {
		cancel()
		_ = body.Close()
		for range lines {
		}
	}()
	settled := time.NewTimer(keep.Settle)
	defer settled.Stop()
	settled.Stop()
	for waits := false; ; {
		select {
		case line, ok := <-lines:
			if !ok {
				return errors.Join(<-ended, w.tell())
			}
			if err := w.apply(line); err != nil {
				return err
			}
			if !waits {
				waits = true
				settled.Reset(keep.Settle)
			}
		case <-settled.C:
			waits = false
			if err := w.tell(); err != nil {
				return err
			}
		}
	}
}

// scan sends the lines of a watch until it ends.
func scan(ctx context.Context, body io.Reader, lines chan<- []byte) error {
	s := bufio.NewScanner(body)
	s.Buffer(nil, maxEvent)
	for s.Scan() {
		select {
		case lines <- append([]byte(nil), s.Bytes()...):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("kubernetes: a watch: %w", err)
	}
	return nil
}

// apply takes one event.
func (w *watch) apply(line []byte) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("kubernetes: an event of %s: %w", w.v.service, err)
	}
	if e.Type == "ERROR" {
		var s status
		_ = json.Unmarshal(e.Object, &s) // Without a status it is an error all the same.
		return s.err(s.Code)
	}
	var s slice
	if err := json.Unmarshal(e.Object, &s); err != nil {
		return fmt.Errorf("kubernetes: an event of %s: %w", w.v.service, err)
	}
	switch e.Type {
	case "ADDED", "MODIFIED":
		w.slices[s.Metadata.Name] = s
	case "DELETED":
		delete(w.slices, s.Metadata.Name)
	case "BOOKMARK":
	default:
		return fmt.Errorf("kubernetes: an event of %s of the type %.50q", w.v.service, e.Type)
	}
	if s.Metadata.ResourceVersion == "" {
		return fmt.Errorf("kubernetes: an event of %s without a version", w.v.service)
	}
	if len(w.slices) > maxSlices {
		return errGone // The list says what is wrong.
	}
	w.version = s.Metadata.ResourceVersion
	return nil
}

// status is the answer to a request that failed.
type status struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (s status) err(code int) error {
	if code == http.StatusGone {
		return errGone
	}
	return fmt.Errorf("kubernetes: status %d: %.300s", code, s.Message)
}

// get asks for the service's slices and returns the body of the answer.
func (v *resolver) get(ctx context.Context, query url.Values) (io.ReadCloser, error) {
	query.Set("labelSelector", "kubernetes.io/service-name="+v.service)
	address := *v.c.base
	address.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	if v.c.o.TokenFile != "" {
		token, err := readFile(v.c.o.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("kubernetes: Options.TokenFile: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := v.c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxFile))
	if err != nil {
		return nil, fmt.Errorf("kubernetes: status %d: %w", resp.StatusCode, err)
	}
	var s status
	if json.Unmarshal(text, &s) != nil || s.Message == "" {
		s.Message = string(text)
	}
	return nil, s.err(resp.StatusCode)
}
