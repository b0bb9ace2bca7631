package http2

import (
	"net/http"
	"strconv"
	"strings"
)

// lowerNames maps the usual field names from their canonical form to the one of HTTP/2, so that they cost no memory.
var lowerNames = func() map[string]string { //nolint:gochecknoglobals // a table, never written again
	m := make(map[string]string)
	for name := range strings.SplitSeq("accept,accept-charset,accept-encoding,accept-language,accept-ranges,access-control-allow-credentials,"+
		"access-control-allow-headers,access-control-allow-methods,access-control-allow-origin,access-control-expose-headers,"+
		"access-control-max-age,age,allow,alt-svc,authorization,cache-control,content-disposition,content-encoding,content-language,"+
		"content-length,content-location,content-range,content-security-policy,content-type,cookie,date,etag,expires,forwarded,"+
		"grpc-encoding,grpc-message,grpc-status,host,if-match,if-modified-since,if-none-match,if-range,if-unmodified-since,"+
		"last-modified,link,location,origin,pragma,priority,proxy-authenticate,range,referer,referrer-policy,retry-after,server,"+
		"server-timing,set-cookie,strict-transport-security,te,trailer,traceparent,user-agent,vary,via,warning,www-authenticate,"+
		"x-content-type-options,x-forwarded-for,x-forwarded-proto,x-frame-options,x-request-id", ",") {
		m[http.CanonicalHeaderKey(name)] = name
	}
	return m
}()

// canonicalNames maps the usual field names in lower case to their canonical form.
var canonicalNames = func() map[string]string { //nolint:gochecknoglobals // a table, never written again
	m := make(map[string]string, len(lowerNames))
	for name, low := range lowerNames {
		m[low] = name
	}
	return m
}()

// canonicalName returns the canonical form of a field name.
func canonicalName(name string) string {
	if canonical, ok := canonicalNames[name]; ok {
		return canonical
	}
	return http.CanonicalHeaderKey(name)
}

// lowerName returns a field name in lower case.
func lowerName(name string) string {
	if low, ok := lowerNames[name]; ok {
		return low
	}
	return strings.ToLower(name)
}

// statusTexts are the values of :status.
var statusTexts = func() (t [600]string) { //nolint:gochecknoglobals // a table, never written again
	for i := 100; i < len(t); i++ {
		t[i] = strconv.Itoa(i)
	}
	return t
}()

func statusText(status int) string {
	if status < len(statusTexts) {
		return statusTexts[status]
	}
	return strconv.Itoa(status)
}
