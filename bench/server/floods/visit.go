package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// visit has n clients ask at fixed times for d, and prints the median and the 99th percentile of the latencies from those times on, in
// microseconds.
func visit(addr string, n int, every, d time.Duration) error {
	var mu sync.Mutex
	var wg sync.WaitGroup
	all, errs := newHistogram(), []error(nil)
	for i := range n {
		wg.Go(func() {
			h, err := ask(addr, every, every*time.Duration(i)/time.Duration(n), int(d/every))
			mu.Lock()
			defer mu.Unlock()
			if errs = append(errs, err); err == nil {
				all.Merge(h)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Println(float64(all.ValueAtQuantile(50))/1e3, float64(all.ValueAtQuantile(99))/1e3)
	return nil
}

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1000, int64(time.Minute), 3)
}

// ask makes n requests on one connection, and reads until all are answered.
func ask(addr string, every, offset time.Duration, n int) (*hdrhistogram.Histogram, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/"}, {Name: ":authority", Value: "bench", Sensitive: true}} {
		if err := enc.WriteField(f); err != nil { // none is remembered, so the block is the same for each request
			return nil, err
		}
	}
	fr := http2.NewFramer(c, c)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return nil, err
	}
	if err := errors.Join(fr.WriteSettings(), fr.WriteWindowUpdate(0, 1<<30)); err != nil {
		return nil, err
	}
	begin := time.Now().Add(offset)
	h := newHistogram()
	answered := make(chan error, 1)
	go func() { answered <- answers(fr, n, every, begin, h) }()
	for i := range n {
		time.Sleep(time.Until(begin.Add(every * time.Duration(i))))
		if err := fr.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
			return nil, errors.Join(err, <-answered)
		}
	}
	return h, <-answered
}

// answers reads the answers to n requests.
func answers(fr *http2.Framer, n int, every time.Duration, begin time.Time, h *hdrhistogram.Histogram) error {
	for got := 0; got < n; {
		f, err := fr.ReadFrame()
		if err != nil {
			return fmt.Errorf("after %d of %d answers: %w", got, n, err)
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			return fmt.Errorf("after %d of %d answers: %v", got, n, f)
		case *http2.RSTStreamFrame:
			return fmt.Errorf("after %d of %d answers: %v", got, n, f)
		case *http2.DataFrame:
			if f.StreamEnded() {
				got++
				due := begin.Add(every * time.Duration(f.StreamID/2))
				_ = h.RecordValue(min(max(int64(time.Since(due)), 0), int64(time.Minute))) // in range, so it cannot fail
			}
		}
	}
	return nil
}
