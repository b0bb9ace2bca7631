package rpc

import "testing"

func TestCodecNames(t *testing.T) {
	for _, c := range []Codec{CodecRaw, CodecJSON, CodecProtobuf} {
		if got, err := ParseCodec(c.String()); err != nil || got != c {
			t.Errorf("%v is parsed as %v, %v", c, got, err)
		}
	}
	if _, err := ParseCodec("xml"); err == nil || Codec(7).String() != "codec 7" {
		t.Error(err, Codec(7))
	}
}
