package rpc

// HealthKey is eddy.Health, which every server has on all ports. Its method Check tells, on the loop, whether a service is served, also while all pools are
// full.
var HealthKey = Key{Interface: "eddy.Health"}

// Values of HealthResponse.Status.
const (
	Serving    = "SERVING"
	NotServing = "NOT_SERVING"
)

// HealthRequest is the request of Check of eddy.Health.
type HealthRequest struct {
	Service string `json:"service"` // a key; "" is the server
}

// HealthResponse is the response of Check. A key that is not registered is answered NOT_FOUND instead.
type HealthResponse struct {
	Status string `json:"status"` // Serving or NotServing
}
