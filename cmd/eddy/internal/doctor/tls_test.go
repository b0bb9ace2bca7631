package doctor

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io/fs"
	"math/big"
	"net"
	"testing"
	"time"
)

// party is somebody with a key and a certificate.
type party struct {
	key     crypto.Signer
	cert    *x509.Certificate
	certPEM string
	keyPEM  string
}

// issue makes a certificate signed by another, by itself when by is nil.
func issue(t *testing.T, by *party, key crypto.Signer, change func(*x509.Certificate)) *party {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "somebody"}, DNSNames: []string{"desk.example"},
		NotBefore: today.AddDate(0, -1, 0), NotAfter: today.AddDate(0, 2, 0), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	if change != nil {
		change(template)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &party{key, cert, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))}
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func authority(name string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.Subject.CommonName, c.IsCA, c.KeyUsage, c.DNSNames, c.ExtKeyUsage = name, true, x509.KeyUsageCertSign, nil, nil
		c.NotAfter = today.AddDate(5, 0, 0)
	}
}

func TestTLS(t *testing.T) {
	t.Setenv("GODEBUG", "rsa1024min=0")
	root := issue(t, nil, newKey(t), authority("root"))
	middle := issue(t, root, newKey(t), authority("middle"))
	leaf := func(change func(*x509.Certificate)) *party { return issue(t, middle, newKey(t), change) }
	good := leaf(nil)
	weakKey, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	weak := issue(t, middle, weakKey, nil)
	many := leaf(func(c *x509.Certificate) {
		c.DNSNames, c.IPAddresses = []string{"a.example", "b.example", "c.example"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	})
	until := func(at time.Time) *party { return leaf(func(c *x509.Certificate) { c.NotAfter = at }) }
	files := func(cert, key string) func(*fake) {
		return func(f *fake) {
			f.files["c.pem"], f.files["k.pem"] = cert, key
			f.roots.AddCert(root.cert)
		}
	}
	both := func(p *party) func(*fake) { return files(p.certPEM+middle.certPEM, p.keyPEM) }
	mode := func(m fs.FileMode) func(*fake) {
		return func(f *fake) { both(good)(f); f.modes["k.pem"] = m }
	}
	ask := Question{TLSCert: "c.pem", TLSKey: "k.pem"}
	run(t, []verdictCase{
		{name: "not asked", check: "TLS", want: Skip},
		{name: "no certificate", change: func(*fake) {}, ask: ask, check: "TLS", want: Fail, found: []string{"c.pem"}, remedy: []string{"read access to c.pem"}},
		{name: "no key", change: func(f *fake) { f.files["c.pem"] = good.certPEM }, ask: ask, check: "TLS", want: Fail, found: []string{"k.pem"}, remedy: []string{"read access to k.pem"}},
		{name: "no PEM", change: files("hello", good.keyPEM), ask: ask, check: "TLS", want: Fail, found: []string{"no certificate in PEM"}},
		{name: "garbled", change: files(good.certPEM+"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", good.keyPEM), ask: ask, check: "TLS", want: Fail, found: []string{"certificate 2:"}},
		{name: "key", change: both(good), ask: ask, check: "TLS key", want: OK, found: []string{"goes with the certificate, ECDSA P-256"}},
		{name: "another's key", change: files(good.certPEM, root.keyPEM), ask: ask, check: "TLS key", want: Fail, found: []string{"k.pem does not go with c.pem"}, remedy: []string{"openssl x509 -noout -pubkey -in c.pem", "openssl pkey -pubout -in k.pem"}},
		{name: "weak key", change: both(weak), ask: ask, check: "TLS key", want: Fail, found: []string{"RSA with 1024 bits: clients refuse"}},
		{name: "key for all", change: mode(0o644), ask: ask, check: "TLS key", want: Fail, found: []string{"mode 0644 lets everybody"}, remedy: []string{"chmod 600 k.pem"}},
		{name: "key that all may write", change: mode(0o602), ask: ask, check: "TLS key", want: Fail, found: []string{"mode 0602"}, remedy: []string{"chmod 600 k.pem"}},
		{name: "key for a group", change: mode(0o640), ask: ask, check: "TLS key", want: OK},
		{name: "key writable for a group", change: mode(0o660), ask: ask, check: "TLS key", want: Warn, found: []string{"lets its group write it"}, remedy: []string{"chmod 640 k.pem"}},
		{name: "key for all, on a system without modes", machine: windowsMachine, change: func(f *fake) { f.files = map[string]string{}; mode(0o644)(f) }, ask: ask, check: "TLS key", want: OK},
		{name: "certificate", change: both(good), ask: ask, check: "TLS certificate", want: OK, found: []string{"for desk.example, until 2027-01-22"}},
		{name: "many names", change: both(many), ask: ask, check: "TLS certificate", want: OK, found: []string{"for a.example, b.example, c.example and 1 more"}},
		{name: "expired", change: both(until(today.AddDate(0, 0, -1))), ask: ask, check: "TLS certificate", want: Fail, found: []string{"certificate 1 of the file expired on 2026-11-21"}},
		{name: "soon", change: both(until(today.AddDate(0, 0, 20))), ask: ask, check: "TLS certificate", want: Warn, found: []string{"expires in 20 days"}},
		{name: "soon enough", change: both(until(today.AddDate(0, 0, 22))), ask: ask, check: "TLS certificate", want: OK},
		{name: "not yet", change: both(leaf(func(c *x509.Certificate) { c.NotBefore = today.Add(time.Hour) })), ask: ask, check: "TLS certificate", want: Fail, found: []string{"valid only from"}},
		{name: "no names", change: both(leaf(func(c *x509.Certificate) { c.DNSNames = nil })), ask: ask, check: "TLS certificate", want: Fail, found: []string{"for nobody", "names no host"}},
		{name: "for clients", change: both(leaf(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })), ask: ask, check: "TLS certificate", want: Fail, found: []string{"not meant for servers"}},
		{name: "with the root", change: files(good.certPEM+middle.certPEM+root.certPEM, good.keyPEM), ask: ask, check: "TLS certificate", want: OK},
		{name: "wrong order", change: files(good.certPEM+root.certPEM+middle.certPEM, good.keyPEM), ask: ask, check: "TLS certificate", want: Fail, found: []string{"certificate 1 of the file is not signed by the one that follows it"}},
		{name: "one missing", change: files(good.certPEM, good.keyPEM), ask: ask, check: "TLS certificate", want: Warn, found: []string{"a certificate between is missing"}, remedy: []string{"cat issuer.pem >> c.pem"}},
		{name: "unknown authority", change: func(f *fake) { both(good)(f); f.roots = x509.NewCertPool() }, ask: ask, check: "TLS certificate", want: Warn, found: []string{"no authority that this machine knows"}},
		{name: "roots unknown", change: func(f *fake) { both(good)(f); f.rootsErr = fs.ErrNotExist }, ask: ask, check: "TLS certificate", want: OK},
		{name: "self-signed", change: func(f *fake) {
			own := issue(t, nil, newKey(t), nil)
			files(own.certPEM, own.keyPEM)(f)
		}, ask: ask, check: "TLS certificate", want: Warn, found: []string{"vouches for itself"}},
	})
}
