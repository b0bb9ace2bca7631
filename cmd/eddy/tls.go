package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/executor"
	"github.com/go-eddy/eddy/metrics"
	"github.com/go-eddy/eddy/tlsx"
	"github.com/spf13/cobra"
)

// tlsFlags make a server command speak TLS.
type tlsFlags struct {
	cert, key  string
	selfSigned bool
}

func (f *tlsFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.cert, "tls-cert", "", "speak TLS with the certificate chain in this PEM file; SIGHUP reads it and the key again")
	cmd.Flags().StringVar(&f.key, "tls-key", "", "PEM file with the key of --tls-cert")
	cmd.Flags().BoolVar(&f.selfSigned, "tls-self-signed", false, "speak TLS with a certificate made now, for trials; its fingerprint is printed")
}

// secure reports whether the command speaks TLS.
func (f *listenFlags) secure() bool { return f.tls.cert != "" || f.tls.selfSigned }

// check reports flags that do not go together.
func (f *tlsFlags) check() error {
	switch {
	case f.selfSigned && (f.cert != "" || f.key != ""):
		return errors.New("--tls-self-signed makes its own certificate: leave out --tls-cert and --tls-key, or use them alone")
	case f.cert != "" && f.key == "":
		return fmt.Errorf("--tls-cert %s is useless without its key: add --tls-key FILE", f.cert)
	case f.key != "" && f.cert == "":
		return fmt.Errorf("--tls-key %s is useless without its certificate: add --tls-cert FILE", f.key)
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

// secured puts TLS in front of what init adds, if the flags ask for it. Call end when the server has stopped.
func (t *terminal) secured(f *listenFlags, init func(*eddy.Pipeline) error) (with func(*eddy.Pipeline) error, end func(), err error) {
	if !f.secure() {
		return init, func() {}, nil
	}
	config, pair, err := f.tls.config(f.addr)
	if err != nil {
		return nil, nil, err
	}
	s := &secure{quit: make(chan struct{})}
	if s.pool, err = executor.NewFixed(executor.Options{Name: "tls", Queue: handshakeQueue, Dumper: f.dump.dumper()}); err != nil {
		return nil, nil, err
	}
	layer, err := tlsx.Server(config, s.pool, tlsx.Options{})
	if err != nil {
		s.pool.Close()
		return nil, nil, err
	}
	f.measured = append(f.measured, metrics.TLS("tls", layer), metrics.Pool("tls", s.pool))
	if pair != nil {
		t.note("TLS certificate %s, SHA-256 %s", f.tls.cert, pair.Fingerprint())
		hup := make(chan os.Signal, 1)
		signal.Notify(hup, syscall.SIGHUP) // before anybody is told that the server serves: the signal would end it
		s.done.Go(func() { s.reload(t, f.tls.cert, pair, hup) })
	} else {
		t.note("TLS certificate self-signed, SHA-256 %s", tlsx.Fingerprint(&config.Certificates[0]))
	}
	with = func(p *eddy.Pipeline) error {
		if err := p.Add("tls", layer); err != nil {
			return err
		}
		return init(p)
	}
	return with, s.end, nil
}

// config returns the configuration and the pair of files that it comes from. The pair is nil for a certificate made now.
func (f *tlsFlags) config(addr string) (*tls.Config, *tlsx.KeyPair, error) {
	if !f.selfSigned {
		pair, err := tlsx.LoadKeyPair(f.cert, f.key)
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
func (f *tlsFlags) explain(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("cannot read %s: %w; name PEM files with --tls-cert and --tls-key", path.Path, path.Err)
	}
	return fmt.Errorf("%s and %s are no pair of certificate and key: %w; both must be PEM, and the key that of the first certificate", f.cert, f.key, errors.Unwrap(err))
}

// reload reads the files again at each SIGHUP.
func (s *secure) reload(t *terminal, file string, pair *tlsx.KeyPair, hup chan os.Signal) {
	defer signal.Stop(hup)
	for {
		select {
		case <-s.quit:
			return
		case <-hup:
		}
		switch changed, err := pair.Reload(); {
		case err != nil:
			t.note("the certificate in use stays: %s", oneLine(err))
		case changed:
			t.note("TLS certificate %s is new, SHA-256 %s", file, pair.Fingerprint())
		default:
			t.note("TLS certificate %s is as before", file)
		}
	}
}

func (s *secure) end() {
	close(s.quit)
	s.done.Wait()
	s.pool.Close()
}
