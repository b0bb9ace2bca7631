package tlsx

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"sync/atomic"
	"time"
)

// KeyPair is a certificate in files that can be replaced while it is in use. Handshakes that begin after Reload get the
// new certificate. Established connections are not affected.
type KeyPair struct {
	certFile, keyFile string
	current           atomic.Pointer[tls.Certificate]
}

// LoadKeyPair reads a certificate chain and its key, both PEM. The error names the files.
func LoadKeyPair(certFile, keyFile string) (*KeyPair, error) {
	k := &KeyPair{certFile: certFile, keyFile: keyFile}
	_, err := k.Reload()
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Reload reads the files again and reports whether the certificate changed. After an error the old certificate stays in
// use. Any goroutine.
func (k *KeyPair) Reload() (changed bool, err error) {
	c, err := tls.LoadX509KeyPair(k.certFile, k.keyFile)
	if err != nil {
		return false, fmt.Errorf("tlsx: certificate %s with key %s: %w", k.certFile, k.keyFile, err)
	}
	old := k.current.Swap(&c)
	return old == nil || !bytes.Equal(old.Certificate[0], c.Certificate[0]), nil
}

// GetCertificate is for tls.Config.GetCertificate of a server. Any goroutine.
func (k *KeyPair) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return k.current.Load(), nil
}

// GetClientCertificate is for tls.Config.GetClientCertificate of a client. Any goroutine.
func (k *KeyPair) GetClientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return k.current.Load(), nil
}

// Fingerprint returns the SHA-256 of the certificate in use, in hexadecimal.
func (k *KeyPair) Fingerprint() string { return Fingerprint(k.current.Load()) }

// Fingerprint returns the SHA-256 of a certificate, in hexadecimal.
func Fingerprint(c *tls.Certificate) string {
	return fmt.Sprintf("%x", sha256.Sum256(c.Certificate[0]))
}

// selfSignedFor is how long a self-signed certificate is valid.
const selfSignedFor = 30 * 24 * time.Hour

// SelfSigned makes a certificate for the given host names and addresses, signed by itself. It is for trials, and for
// clients that know its fingerprint. It is also a certificate authority, so that it can be put in a pool of roots.
func SelfSigned(hosts ...string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tlsx: making a key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tlsx: making a serial number: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "eddy self-signed"},
		NotBefore:    now.Add(-time.Hour), NotAfter: now.Add(selfSignedFor),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IsCA:        true, BasicConstraintsValid: true,
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tlsx: making a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("tlsx: reading the certificate made: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
