// Package kubernetes finds the pods behind a service of Kubernetes by its API: it lists and watches the service's EndpointSlices. Kubernetes itself
// registers pods, by their readiness, so there is nothing to register here.
//
//	cluster, err := kubernetes.New(kubernetes.Options{}) // in a pod
//	defer cluster.Close()
//	resolver := cluster.Resolver("greeter", "rpc")
//
// The pod's account needs the verbs list and watch on endpointslices of discovery.k8s.io.
package kubernetes

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-eddy/eddy/rpc/discovery"
	"github.com/go-eddy/eddy/rpc/discovery/internal/keep"
)

// account is where a pod finds its token, the certificate of the API and its namespace.
const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

const (
	maxFile   = 1 << 20 // of a token, certificates or a namespace in bytes
	pingAfter = 15 * time.Second
)

// Options say where the API is. The zero value is that of the cluster in which the program runs as a pod.
type Options struct {
	Host      string // URL of the API; "" = from the environment of a pod
	Namespace string // of the services; "" = the pod's

	// TokenFile has the token, which is read again for each request because it changes. "" = the pod's, or none if Host is set.
	TokenFile string
	// CAFile has the certificates that the API's is checked by. "" = the pod's, or the system's if Host is set.
	CAFile string

	Client http.RoundTripper // nil = one of its own
	Logger *slog.Logger      // nil = slog.Default()
}

// Cluster finds the services of a namespace. Make one with New. Any goroutine may call its methods.
type Cluster struct {
	o    Options
	base *url.URL // of the namespace's EndpointSlices
	keep *keep.Keeper
	http *http.Client
	idle func() // closes the connections that nobody uses
}

// New returns a Cluster, which connects when it is first used. The error names the option, file or variable that is missing or makes no sense.
func New(o Options) (*Cluster, error) {
	o, err := o.inPod()
	if err != nil {
		return nil, err
	}
	host, err := url.Parse(o.Host)
	if err != nil || host.Scheme != "http" && host.Scheme != "https" || host.Host == "" {
		return nil, fmt.Errorf("kubernetes: Options.Host is %q: it must be a URL with http or https", o.Host)
	}
	if !label(o.Namespace) {
		return nil, fmt.Errorf("kubernetes: Options.Namespace is %q: it must be the name of a namespace", o.Namespace)
	}
	c := &Cluster{o: o, keep: keep.New("kubernetes", cmp.Or(o.Logger, slog.Default())), idle: func() {}}
	c.base = host.JoinPath("/apis/discovery.k8s.io/v1/namespaces", o.Namespace, "endpointslices")
	transport := o.Client
	if transport == nil {
		own := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, TLSHandshakeTimeout: requestTimeout, ResponseHeaderTimeout: requestTimeout}
		own.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingAfter}
		if own.TLSClientConfig, err = o.certificates(); err != nil {
			return nil, err
		}
		c.idle, transport = own.CloseIdleConnections, own
	}
	c.http = &http.Client{Transport: transport}
	return c, nil
}

// inPod returns the options with what a pod knows.
func (o Options) inPod() (Options, error) {
	if o.Host == "" {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return o, errors.New("kubernetes: Options.Host is empty, and KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: this is no pod")
		}
		o.Host = "https://" + net.JoinHostPort(host, port)
		o.TokenFile = cmp.Or(o.TokenFile, account+"token")
		o.CAFile = cmp.Or(o.CAFile, account+"ca.crt")
	}
	if o.Namespace == "" {
		name, err := readFile(account + "namespace")
		if err != nil {
			return o, fmt.Errorf("kubernetes: Options.Namespace is empty, and the pod's is not known: %w", err)
		}
		o.Namespace = name
	}
	return o, nil
}

// certificates are those that the API is checked by; nil = the system's.
func (o Options) certificates() (*tls.Config, error) {
	if o.CAFile == "" {
		return nil, nil
	}
	text, err := readFile(o.CAFile)
	if err != nil {
		return nil, fmt.Errorf("kubernetes: Options.CAFile: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(text)) {
		return nil, fmt.Errorf("kubernetes: Options.CAFile: %s has no certificate", o.CAFile)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// readFile returns a file's text without the space around it.
func readFile(name string) (string, error) {
	text, err := os.ReadFile(name)
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has %d bytes, limit %d", name, len(text), maxFile)
	}
	return strings.TrimSpace(string(text)), err
}

// label reports whether a name is one of Kubernetes: RFC 1123.
func label(name string) bool {
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' }
	return name != "" && len(name) <= 253 && !strings.ContainsFunc(name, odd)
}

// Resolver returns a resolver of the ready pods of a service, at the port of that name; "" is the only port. It makes no connection before its first
// Watch.
func (c *Cluster) Resolver(service, port string) discovery.Resolver {
	return &resolver{c: c, service: service, port: port}
}

// Close ends all watches and waits for them.
func (c *Cluster) Close() error {
	c.keep.Close()
	c.idle()
	return nil
}
