package serving

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/cmd/eddy/internal/cli"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/metrics"
	"github.com/go-eddy/eddy/tlsx"
	"github.com/spf13/cobra"
)

// TLSFlags make a server command speak TLS.
type TLSFlags struct {
	Cert, Key  string
	selfSigned bool
}

func (f *TLSFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.Cert, "tls-cert", "", "speak TLS with the certificate chain in this PEM file; SIGHUP reads it and the key again")
	cmd.Flags().StringVar(&f.Key, "tls-key", "", "PEM file with the key of --tls-cert")
	cmd.Flags().BoolVar(&f.selfSigned, "tls-self-signed", false, "speak TLS with a certificate made now, for trials; its fingerprint is printed")
}

// Secure reports whether the command speaks TLS.
func (f *Flags) Secure() bool { return f.tls.Cert != "" || f.tls.selfSigned }

// Certified reports whether the command speaks TLS with a certificate of the user's.
func (f *Flags) Certified() bool { return f.tls.Cert != "" }

// Check reports flags that do not go together.
func (f *TLSFlags) Check() error {
	switch {
	case f.selfSigned && (f.Cert != "" || f.Key != ""):
		return errors.New("--tls-self-signed makes its own certificate: leave out --tls-cert and --tls-key, or use them alone")
	case f.Cert != "" && f.Key == "":
		return fmt.Errorf("--tls-cert %s is useless without its key: add --tls-key FILE", f.Cert)
	case f.Key != "" && f.Cert == "":
		return fmt.Errorf("--tls-key %s is useless without its certificate: add --tls-cert FILE", f.Key)
	}
	return nil
}

// handshakeQueue is the number of handshakes that may be under way, so that the pool refuses none.
const handshakeQueue = tlsx.DefaultMaxHandshakes

// secure is what a server that speaks TLS has beside its pipeline.
type secure struct {
	pool *executor.Pool
	quit chan struct{}
	done sync.WaitGroup
}

// Secured puts TLS in front of what init adds, if the flags ask for it. Call end when the server has stopped.
func (f *Flags) Secured(t *cli.Terminal, init func(*eddy.Pipeline) error) (with func(*eddy.Pipeline) error, end func(), err error) {
	if !f.Secure() {
		return init, func() {}, nil
	}
	config, pair, err := f.tls.config(f.Addr)
	if err != nil {
		return nil, nil, err
	}
	s := &secure{quit: make(chan struct{})}
	if s.pool, err = executor.NewFixed(executor.Options{Name: "tls", Queue: handshakeQueue, Dumper: f.Dumper}); err != nil {
		return nil, nil, err
	}
	var o tlsx.Options
	if f.ALPN != nil {
		config.NextProtos = slices.DeleteFunc(slices.Sorted(maps.Keys(f.ALPN)), func(name string) bool { return name == "" })
		o.Established = tlsx.ByProtocol(f.ALPN)
	}
	layer, err := tlsx.Server(config, s.pool, o)
	if err != nil {
		s.pool.Close()
		return nil, nil, err
	}
	f.Measured = append(f.Measured, metrics.TLS("tls", layer), metrics.Pool("tls", s.pool))
	if pair != nil {
		t.Note("TLS certificate %s, SHA-256 %s", f.tls.Cert, pair.Fingerprint())
		hup := make(chan os.Signal, 1)
		signal.Notify(hup, syscall.SIGHUP) // before anybody is told that the server serves: the signal would end it
		s.done.Go(func() { s.reload(t, f.tls.Cert, pair, hup) })
	} else {
		t.Note("TLS certificate self-signed, SHA-256 %s", tlsx.Fingerprint(&config.Certificates[0]))
	}
	with = func(p *eddy.Pipeline) error {
		if err := p.Add("tls", layer); err != nil || f.ALPN != nil {
			return err
		}
		return init(p)
	}
	return with, s.end, nil
}

// config returns the configuration and the pair of files that it comes from. The pair is nil for a certificate made now.
func (f *TLSFlags) config(addr string) (*tls.Config, *tlsx.KeyPair, error) {
	if !f.selfSigned {
		pair, err := tlsx.LoadKeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, nil, f.explain(err)
		}
		return &tls.Config{GetCertificate: pair.GetCertificate}, pair, nil
	}
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if host, _, err := net.SplitHostPort(addr); err == nil && host != "" && host != "localhost" {
		hosts = append(hosts, host)
	}
	c, err := tlsx.SelfSigned(hosts...)
	if err != nil {
		return nil, nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{c}}, nil, nil
}

// explain turns the reason why a certificate cannot be used into what to do about it.
func (f *TLSFlags) explain(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("cannot read %s: %w; name PEM files with --tls-cert and --tls-key", path.Path, path.Err)
	}
	return fmt.Errorf("%s and %s are no pair of certificate and key: %w; both must be PEM, and the key that of the first certificate", f.Cert, f.Key, errors.Unwrap(err))
}

// reload reads the files again at each SIGHUP.
func (s *secure) reload(t *cli.Terminal, file string, pair *tlsx.KeyPair, hup chan os.Signal) {
	defer signal.Stop(hup)
	for {
		select {
		case <-s.quit:
			return
		case <-hup:
		}
		switch changed, err := pair.Reload(); {
		case err != nil:
			t.Note("the certificate in use stays: %s", cli.OneLine(err))
		case changed:
			t.Note("TLS certificate %s is new, SHA-256 %s", file, pair.Fingerprint())
		default:
			t.Note("TLS certificate %s is as before", file)
		}
	}
}

func (s *secure) end() {
	close(s.quit)
	s.done.Wait()
	s.pool.Close()
}
