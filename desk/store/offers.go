package store

import "context"

// Offer is a conversation that its agent would like another one to take. There is at most one of a conversation. It ends
// with the next change of state or owner, too.
type Offer struct {
	ID      string
	Conv    string
	From    Actor
	To      Actor
	Note    string
	Rev     int64    // of the conversation
	Expires int64    // Unix milliseconds
	End     OfferEnd // "" = it stands
}

// OfferEnd says how an offer has ended.
type OfferEnd string

// Ends of offers.
const (
	OfferDeclined OfferEnd = "declined"
	OfferExpired  OfferEnd = "expired"
	OfferOver     OfferEnd = "over" // the conversation has changed; only Conv is set
)

// MakeOffer offers a conversation, in place of what was offered before. The caller has checked that the other agent is there.
// Errors: ErrConflict if no agent has the conversation, ErrForbidden if it is another one than From, ErrNotFound.
type MakeOffer struct {
	Conv    string
	From    Actor
	To      string // agent
	Note    string
	Rev     int64 // expected revision, 0 = any
	Expires int64 // Unix milliseconds
}

// AcceptOffer gives the conversation of an offer to the agent it was made to. The error is ErrConflict if no offer to it
// stands, or one of a transfer.
type AcceptOffer struct {
	Conv string
	By   Actor
}

// EndOffer ends an offer. The error is ErrConflict if that one does not stand.
type EndOffer struct {
	Conv string
	ID   string
	End  OfferEnd
}

func (MakeOffer) command()   {}
func (AcceptOffer) command() {}
func (EndOffer) command()    {}

// OfferReader reads offers. Methods block and honour ctx.
type OfferReader interface {
	// Offers returns the offers that stand.
	Offers(ctx context.Context) ([]Offer, error)
}
