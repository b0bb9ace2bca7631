package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-eddy/eddy"
)

// BenchmarkScrape is the cost of a scrape of a server with eight loops. The cost depends on the tenants and networks that
// have series, not on the number of connections.
func BenchmarkScrape(b *testing.B) {
	for _, labels := range []int{0, 100, 1000} {
		b.Run(fmt.Sprintf("labels=%d", labels), func(b *testing.B) {
			srv := &crowd{}
			srv.add(labels, 1)
			eight := &eddy.Server{Init: echoLines, Loops: 8}
			if err := eight.Listen("tcp", "127.0.0.1:0"); err != nil {
				b.Fatal(err)
			}
			defer func() { _ = eight.Close() }()
			c := New(Options{})
			if err := c.Register(Server("eight", eight), Server("crowd", srv)); err != nil {
				b.Fatal(err)
			}
			h, err := Handler(HandlerOptions{}, c)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)); w.Code != http.StatusOK {
					b.Fatal(w.Code)
				}
			}
		})
	}
}
