package store

import (
	"context"
	"crypto/ecdh"
	"time"
)

// Limits of push subscriptions. Lengths are in bytes.
const (
	MaxPush         = 10 // of an account; one more takes the place of that which was saved longest ago
	MaxPushEndpoint = 1024
	PushAuth        = 16 // of PushSubscription.Auth
)

// PushSubscription is what a browser has given to call an agent by while no page is open (Push API). It belongs to a login
// and ends with it.
type PushSubscription struct {
	Login    Token
	Agent    AgentAccount // of the login; set by reads
	Endpoint string       // at the browser's push service; whoever knows it can use it, so no log has it
	Key      []byte       // public key of the browser: a point of P-256, not compressed
	Auth     []byte       // secret of the browser
	Locale   string       // of the texts; saved as "", it stays as it was
}

// Check returns what is wrong with a subscription as an Invalid. Whether its address may be asked is not checked.
func (s *PushSubscription) Check() error {
	var i Invalid
	i.text("endpoint", s.Endpoint, MaxPushEndpoint, true, true)
	_, err := ecdh.P256().NewPublicKey(s.Key)
	i.need(err == nil, "key", ReasonFormat)
	i.need(len(s.Auth) == PushAuth, "auth", ReasonFormat)
	i.need(localeForm.MatchString(s.Locale), "locale", ReasonFormat)
	return i.err()
}

// PushReader are the reads of push subscriptions. Methods block and honour ctx.
type PushReader interface {
	// PushSubscriptions returns those of an agent, the one saved last first. Their logins have not expired by now and were
	// used since a time. The account is not disabled.
	PushSubscriptions(ctx context.Context, agent string, now, since time.Time) ([]PushSubscription, error)
}

// PushWrites are the changes of push subscriptions. They block until committed and honour ctx.
type PushWrites interface {
	// SavePush gives a login its subscription in place of the one before. An endpoint that another login has moves here,
	// because it is the same browser. The error is an Invalid, or ErrNotFound for a login that does not exist or has ended.
	SavePush(ctx context.Context, s PushSubscription) error
	// DropPush removes the subscription of a login, only if it has this endpoint unless that is "". The error is ErrNotFound
	// if there is none.
	DropPush(ctx context.Context, login Token, endpoint string) error
}
