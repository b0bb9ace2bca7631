package rpc

import "github.com/go-eddy/eddy/rpc/internal/payload"

// Codec is the encoding of bodies.
type Codec uint8

// The codecs, by their number on the wire.
const (
	CodecRaw      Codec = 0 // the bytes themselves: []byte
	CodecJSON     Codec = 1 // any value that encoding/json takes; a proto.Message as protobuf's JSON
	CodecProtobuf Codec = 2 // a proto.Message
)

const codecs = Codec(payload.Codecs)

var codecNames = [codecs]string{"raw", "json", "protobuf"}

// String returns the codec's name, or its number.
func (c Codec) String() string { return nameOf(c, codecNames[:], "codec") }

// ParseCodec returns the codec of that name: raw, json or protobuf.
func ParseCodec(name string) (Codec, error) { return parseName[Codec](name, codecNames[:], "codec") }
