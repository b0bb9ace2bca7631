// Package health asks a server how it is.
package health

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
)

// Answers returns a check of the HTTP server at addr. The check fails when nobody listens there or no answer comes in
// time. Every answer is a sign of life, even a refusal.
func Answers(addr string, secure bool) func(context.Context) error {
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	page := scheme + cli.Reachable(addr) + "/healthz"
	return func(ctx context.Context) error {
		err := ask(ctx, page, true)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("no answer from %s: %w", page, ctx.Err())
		case errors.Is(err, syscall.ECONNREFUSED): // by the kernel: nobody listens
			return err
		}
		return nil
	}
}

// errNotHealthy is an answer that is not 200.
var errNotHealthy = errors.New("not healthy")

const healthPage = 4096 // bytes of an answer that are looked at

// ask asks a server how it is. An answer other than 200 is errNotHealthy.
func ask(ctx context.Context, address string, anyCertificate bool) error {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: anyCertificate}}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err
		}
		return fmt.Errorf("%s: %w", address, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, healthPage))
	if err != nil {
		return fmt.Errorf("%s: %w", address, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %w: %d %.200s", address, errNotHealthy, resp.StatusCode, text)
	}
	return nil
}

// Command builds the command that asks a server how it is. It is for containers, which have no other program for that.
func Command() *cobra.Command {
	var address string
	var within time.Duration
	var insecure bool
	cmd := &cobra.Command{
		Use:     "health",
		Short:   "Ask a running server whether it is well: exit code 0 if it is, 1 if not",
		Example: "  eddy health\n  eddy health --url https://127.0.0.1:8443/readyz --insecure",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return fmt.Errorf("--url %q is no address of a page: write it like http://127.0.0.1:8080/readyz", address)
			}
			if within <= 0 {
				return fmt.Errorf("--timeout %s is out of range: use more than 0", within)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), within)
			defer cancel()
			return ask(ctx, address, insecure)
		},
	}
	cmd.Flags().StringVar(&address, "url", "http://"+cli.DeskAddr+"/readyz", "page that answers 200 when all is well")
	cmd.Flags().DurationVar(&within, "timeout", 5*time.Second, "longest wait for the answer")
	cmd.Flags().BoolVar(&insecure, "insecure", false, "do not check the certificate, which is for another name than this machine's own")
	return cmd
}
