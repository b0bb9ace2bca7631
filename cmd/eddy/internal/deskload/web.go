package deskload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"
)

// busyPause bounds the pause before a request that the server was too busy for is sent again.
const busyPause = 200 * time.Millisecond

var errBusy = errors.New("the server is busy")

// post sends a request, again while the server says that it is busy.
func (f *Fleet) post(ctx context.Context, web *http.Client, path string, in, out any) error {
	for {
		err := f.anywhere(func(base string) error { return f.postOnce(ctx, web, base+path, in, out) })
		if !errors.Is(err, errBusy) {
			return err
		}
		select {
		case <-time.After(rand.N(busyPause)):
		case <-ctx.Done():
			return err
		}
	}
}

func (f *Fleet) postOnce(ctx context.Context, web *http.Client, url string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := web.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		return fmt.Errorf("POST %s: %w: %.200s", url, errBusy, bytes.TrimSpace(data))
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("POST %s: %s: %.200s", url, resp.Status, bytes.TrimSpace(data))
	}
	if out == nil || len(data) == 0 {
		return nil
	}
	return json.Unmarshal(data, out)
}
