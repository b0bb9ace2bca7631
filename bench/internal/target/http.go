package target

// HTTPType and HTTPBody are in every answer of the comparison's HTTP servers, besides Date and Content-Length.
const (
	HTTPType = "text/plain"
	HTTPBody = "Hello, World!"
)
