package grpcwire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// AppendQuestion appends a ServerReflectionRequest.
func AppendQuestion(b []byte, q Question, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, protowire.Number(q), protowire.BytesType), text)
}

// ParseReflectionResponse reads the files, the services or the error of a ServerReflectionResponse.
func ParseReflectionResponse(b []byte) (*ReflectionResponse, error) {
	r := new(ReflectionResponse)
	err := eachField(b, func(num protowire.Number, _ uint64, m []byte) error {
		switch num {
		case responseFiles:
			return eachField(m, func(num protowire.Number, _ uint64, file []byte) error {
				if num == 1 {
					r.Files = append(r.Files, append([]byte(nil), file...))
				}
				return nil
			})
		case responseServices:
			return eachField(m, func(_ protowire.Number, _ uint64, service []byte) error {
				return eachField(service, func(num protowire.Number, _ uint64, name []byte) error {
					if num == 1 {
						r.Services = append(r.Services, string(name))
					}
					return nil
				})
			})
		case responseError:
			return eachField(m, func(num protowire.Number, varint uint64, text []byte) error {
				switch num {
				case 1:
					r.Code = uint32(varint)
				case 2:
					r.Message = string(text)
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("an answer of reflection: %w", err)
	}
	return r, nil
}
