package rpc

import (
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2/hpack"

	"github.com/go-eddy/eddy/rpc/internal/grpcwire"
)

// contentType begins the content type of a call by gRPC.
const contentType = "application/grpc"

// appendPairs appends metadata.
func appendPairs(list []hpack.HeaderField, pairs []Pair) []hpack.HeaderField {
	for _, p := range pairs {
		name, v := strings.ToLower(p.Key), strings.Trim(p.Value, " ") // no field may end with one
		if strings.HasSuffix(name, grpcwire.BinarySuffix) {
			v = grpcwire.EncodeBinary(p.Value)
		}
		list = append(list, hpack.HeaderField{Name: name, Value: v})
	}
	return list
}

// appendReceived appends a field of the other side. Values of -bin fields are decoded; those that are no base64 are left out.
func appendReceived(m Metadata, name, value string) Metadata {
	if !strings.HasSuffix(name, grpcwire.BinarySuffix) {
		return append(m, Pair{name, value})
	}
	for part := range strings.SplitSeq(value, ",") {
		if b, err := grpcwire.DecodeBinary(strings.TrimSpace(part)); err == nil {
			m = append(m, Pair{name, b})
		}
	}
	return m
}

// checkPairs returns what of some metadata cannot be sent.
func checkPairs(pairs []Pair) error {
	for _, p := range pairs {
		name := strings.ToLower(p.Key)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return fmt.Errorf("rpc: the metadata key %q is no name of a header field", p.Key)
		case grpcwire.Reserved(name):
			return fmt.Errorf("rpc: the metadata key %q belongs to the protocol", p.Key)
		case !strings.HasSuffix(name, grpcwire.BinarySuffix) && !plainText(p.Value):
			return fmt.Errorf("rpc: the metadata value %q of %q is not printable ASCII: a key with the suffix -bin takes any bytes", clip(p.Value), p.Key)
		}
	}
	return nil
}

func plainText(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// maxMessage is the longest message of a status in bytes, as in the frame protocol.
const maxMessage = 1 << 10

func clip(s string) string {
	if len(s) > maxMessage {
		return strings.ToValidUTF8(s[:maxMessage], "")
	}
	return s
}
