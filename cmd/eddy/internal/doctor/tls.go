package doctor

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	expiresSoon = 21 * 24 * time.Hour // automatic renewal comes earlier
	leastRSA    = 2048
)

// tls checks the certificate and the key.
func (e *exam) tls() []Finding {
	const check = "TLS"
	if e.TLSCert == "" {
		return one(check, Skip, "not asked: --tls-cert FILE --tls-key FILE examines them")
	}
	certText, err := e.ReadFile(e.TLSCert)
	if err != nil {
		return one(check, Fail, fmt.Sprintf("certificate: %v", err), readable(e.TLSCert))
	}
	keyText, err := e.ReadFile(e.TLSKey)
	if err != nil {
		return one(check, Fail, fmt.Sprintf("key: %v", err), readable(e.TLSKey))
	}
	chain, err := parseChain(certText)
	if err != nil {
		return one(check, Fail, fmt.Sprintf("%s: %v", e.TLSCert, err))
	}
	return append(e.tlsKey(keyText, certText, chain[0]), e.tlsChain(chain)...)
}

func readable(file string) Step {
	return Step{"give the user of the program", "read access to " + file}
}

func parseChain(text []byte) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(chain)+1, err)
		}
		chain = append(chain, c)
	}
	if len(chain) == 0 {
		return nil, errors.New("no certificate in PEM")
	}
	return chain, nil
}

// tlsKey checks that the key belongs to the certificate, is strong, and is readable by its owner only.
func (e *exam) tlsKey(keyText, certText []byte, leaf *x509.Certificate) []Finding {
	const check = "TLS key"
	if _, err := tls.X509KeyPair(certText, keyText); err != nil {
		return one(check, Fail, fmt.Sprintf("%s does not go with %s: %v", e.TLSKey, e.TLSCert, err),
			Step{"to see which is which, compare", "openssl x509 -noout -pubkey -in " + e.TLSCert}, Step{"with", "openssl pkey -pubout -in " + e.TLSKey})
	}
	f := Finding{check, OK, "goes with the certificate, " + kindOfKey(leaf), nil}
	if k, ok := leaf.PublicKey.(*rsa.PublicKey); ok && k.N.BitLen() < leastRSA {
		f.Verdict = Fail
		f.Found += fmt.Sprintf(": clients refuse less than %d bits", leastRSA)
	}
	info, err := e.Stat(e.TLSKey)
	if err != nil || e.OS() == "windows" {
		return []Finding{f}
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o007 != 0:
		f.Verdict = Fail
		f.Found += fmt.Sprintf("; mode %04o lets everybody on this machine read or write it", mode)
		f.Remedy = []Step{{"as its owner", "chmod 600 " + e.TLSKey}}
	case mode&0o020 != 0:
		f.Verdict = worse(f.Verdict, Warn)
		f.Found += fmt.Sprintf("; mode %04o lets its group write it", mode)
		f.Remedy = []Step{{"as its owner", "chmod 640 " + e.TLSKey}}
	}
	return []Finding{f}
}

func kindOfKey(leaf *x509.Certificate) string {
	switch k := leaf.PublicKey.(type) {
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA with %d bits", k.N.BitLen())
	case *ecdsa.PublicKey:
		return "ECDSA " + k.Curve.Params().Name
	}
	return leaf.PublicKeyAlgorithm.String()
}

// tlsChain checks what clients will check: the time, the names, the purpose, and the path to an authority that they
// know.
func (e *exam) tlsChain(chain []*x509.Certificate) []Finding {
	const check = "TLS certificate"
	leaf := chain[0]
	f := Finding{check, OK, fmt.Sprintf("%s, until %s", names(leaf), leaf.NotAfter.UTC().Format(time.DateOnly)), nil}
	bad := func(v Verdict, format string, args ...any) {
		f.Verdict = worse(f.Verdict, v)
		f.Found += "; " + fmt.Sprintf(format, args...)
	}
	now := time.Unix(0, e.Clock().Wall)
	for i, c := range chain {
		switch {
		case now.Before(c.NotBefore):
			bad(Fail, "%s is valid only from %s", ordinal(i), c.NotBefore.UTC().Format(time.DateTime))
		case now.After(c.NotAfter):
			bad(Fail, "%s expired on %s", ordinal(i), c.NotAfter.UTC().Format(time.DateOnly))
		case c.NotAfter.Sub(now) < expiresSoon:
			bad(Warn, "%s expires in %s", ordinal(i), count(int((c.NotAfter.Sub(now)+12*time.Hour)/(24*time.Hour)), "day"))
		}
	}
	if len(leaf.DNSNames) == 0 && len(leaf.IPAddresses) == 0 {
		bad(Fail, "it names no host (subjectAltName): browsers refuse it")
	}
	if len(leaf.ExtKeyUsage) > 0 && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageServerAuth) && !slices.Contains(leaf.ExtKeyUsage, x509.ExtKeyUsageAny) {
		bad(Fail, "it is not meant for servers")
	}
	e.tlsTrust(chain, now, &f, bad)
	return []Finding{f}
}

// tlsTrust checks the order of the chain, and whether this machine would trust it.
func (e *exam) tlsTrust(chain []*x509.Certificate, now time.Time, f *Finding, bad func(Verdict, string, ...any)) {
	for i := 1; i < len(chain); i++ {
		if chain[i-1].CheckSignatureFrom(chain[i]) != nil {
			bad(Fail, "%s is not signed by the one that follows it: the server's comes first, then each one's issuer", ordinal(i-1))
			return
		}
	}
	leaf := chain[0]
	if len(chain) == 1 && bytes.Equal(leaf.RawIssuer, leaf.RawSubject) {
		bad(Warn, "it vouches for itself: browsers warn, other clients refuse")
		return
	}
	roots, err := e.Roots()
	if err != nil {
		return
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now})
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		bad(Warn, "no authority that this machine knows vouches for it: its own is unknown, or a certificate between is missing")
		if len(chain) == 1 {
			f.Remedy = append(f.Remedy, Step{"append the issuer's certificate", "cat issuer.pem >> " + e.TLSCert})
		}
	}
}

func ordinal(i int) string { return fmt.Sprintf("certificate %d of the file", i+1) }

// names lists some of the hosts of a certificate.
func names(c *x509.Certificate) string {
	all := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	switch {
	case len(all) == 0:
		return "for nobody"
	case len(all) > 3:
		return fmt.Sprintf("for %s and %d more", strings.Join(all[:3], ", "), len(all)-3)
	}
	return "for " + strings.Join(all, ", ")
}
