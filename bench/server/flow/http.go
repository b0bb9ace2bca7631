package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
)

// ServeHTTP takes the request to its end and answers.
func (f *flow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil || n != int64(len(f.request())) {
		http.Error(w, fmt.Sprintf("a body of %d bytes: %v", n, err), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(f.answer())))
	_, _ = w.Write(f.answer()) // the caller notices missing bytes
}

// callHTTP gives each caller a connection.
func (f *flow) callHTTP() error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: f.Callers}}
	defer client.CloseIdleConnections()
	return f.Run(func([]byte) (int, error) {
		resp, err := client.Post("http://"+f.Addr, "application/octet-stream", bytes.NewReader(f.request()))
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
		n, err := io.Copy(io.Discard, resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s", resp.Status)
		}
		return f.done(int(n), err)
	})
}
