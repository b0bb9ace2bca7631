package grpcwire

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// HealthService is the interface of the health service, and Check and Watch are its methods (grpc/health/v1/health.proto).
const HealthService = "grpc.health.v1.Health"

// Health is the status of a service in a HealthCheckResponse.
type Health uint64

// The statuses.
const (
	Serving        Health = 1
	NotServing     Health = 2
	ServiceUnknown Health = 3
)

// ParseHealthRequest returns the service that a HealthCheckRequest asks about.
func ParseHealthRequest(b []byte) (service string, err error) {
	err = eachField(b, func(num protowire.Number, _ uint64, bytes []byte) error {
		if num == 1 {
			service = string(bytes)
		}
		return nil
	})
	return service, err
}

// AppendHealthRequest appends a HealthCheckRequest.
func AppendHealthRequest(b []byte, service string) []byte {
	if service == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, 1, protowire.BytesType), service)
}

// ParseHealthResponse returns the status of a HealthCheckResponse.
func ParseHealthResponse(b []byte) (h Health, err error) {
	err = eachField(b, func(num protowire.Number, v uint64, _ []byte) error {
		if num == 1 {
			h = Health(v)
		}
		return nil
	})
	return h, err
}

// AppendHealthResponse appends a HealthCheckResponse.
func AppendHealthResponse(b []byte, h Health) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, 1, protowire.VarintType), uint64(h))
}
