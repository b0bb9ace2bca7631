package store

// MaxConvPage is the largest number of conversations that one query returns.
const MaxConvPage = 100

// ConvQuery selects conversations by the time of their opening, the newest first. Zero fields select everything.
type ConvQuery struct {
	State  State
	From   int64  // Unix milliseconds, inclusive
	To     int64  // exclusive
	Cursor string // of the page before
	Limit  int    // 1 to MaxConvPage, else MaxConvPage
}
