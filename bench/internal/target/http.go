package target

// What the HTTP servers of the comparison answer to every request, beside Date and Content-Length.
const (
	HTTPType = "text/plain"
	HTTPBody = "Hello, World!"
)
