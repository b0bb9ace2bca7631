package payload

// AnswerKey is the key of a context's value that is an Answer.
type AnswerKey struct{}

// Answer is what a response carries beside its message, as pairs of type P.
type Answer[P any] interface {
	SetHeader(pairs []P) error
	SendHeader(pairs []P) error
	SetTrailer(pairs []P) error
}

// Detailed is an error with the details of the response that tells it, frame.StatusError.Details.
type Detailed interface {
	error
	Details() string
}
