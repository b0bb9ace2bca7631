package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/go-eddy/eddy/http1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestHTTPClient fetches pages of a net/http server over two connections.
func TestHTTPClient(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, strings.Repeat("x", len(r.URL.Path)))
	}))
	defer srv.Close()
	tr := &http1.Transport{MaxConnsPerHost: 2}
	defer func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	}()
	var urls, want []string
	for i := range 10 {
		urls = append(urls, srv.URL+"/"+strings.Repeat("p", i))
		want = append(want, fmt.Sprintf("200 OK, %d bytes", i+1))
	}
	if got := fetch(&http.Client{Transport: tr}, urls); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := fetch(&http.Client{Transport: tr}, []string{"ftp://127.0.0.1/"}); !strings.Contains(got[0], "ftp") {
		t.Errorf("an address it cannot fetch: %q", got)
	}
	if st := tr.Stats(); st.Open > 2 || st.Requests != 10 || st.Reused < 8 {
		t.Errorf("%+v", st)
	}
}
