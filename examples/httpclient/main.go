// Command httpclient fetches pages side by side with a plain http.Client that uses the engine's transport: few connections, bounded waiting, no
// goroutine for each connection. Try it with: go run ./examples/httpclient http://127.0.0.1:8000/hello/{ann,bob,cat}
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-eddy/eddy/http1"
)

// fetch returns the result of each URL, in their order.
func fetch(client *http.Client, urls []string) []string {
	results := make([]string, len(urls))
	var all sync.WaitGroup
	for i, url := range urls {
		all.Go(func() {
			resp, err := client.Get(url)
			if err != nil {
				results[i] = err.Error()
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
			if err != nil {
				results[i] = err.Error()
				return
			}
			results[i] = fmt.Sprintf("%s, %d bytes", resp.Status, len(body))
		})
	}
	all.Wait()
	return results
}

func main() {
	tr := &http1.Transport{MaxConnsPerHost: 4, MaxWaiting: 100, ResponseHeaderTimeout: 10 * time.Second}
	results := fetch(&http.Client{Transport: tr, Timeout: time.Minute}, os.Args[1:])
	for i, r := range results {
		fmt.Println(os.Args[1+i], r)
	}
	if err := tr.Close(); err != nil {
		log.Fatal(err)
	}
}
