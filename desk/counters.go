package desk

import (
	"github.com/go-eddy/eddy"
	"github.com/go-eddy/eddy/desk/bus"
	"github.com/go-eddy/eddy/desk/hooks"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/mail"
	"github.com/go-eddy/eddy/desk/push"
	"github.com/go-eddy/eddy/desk/store"
)

// Stats is a snapshot of what a Desk has counted since its start.
type Stats struct {
	OriginRefused   uint64 // WebSocket upgrades from a wrong origin
	CrossSite       uint64 // state-changing requests from another site
	Logins          uint64
	LoginsFailed    uint64 // wrong login or password
	LoginsThrottled uint64 // refused without a look at the password
	Visitors        uint64 // new ones
	VisitorsRefused uint64 // over the rate
	SocketsRefused  uint64 // WebSockets over the limit of an address
	IdentitiesBad   uint64 // signed identities that were not accepted
	RequestsBusy    uint64 // refused because their places were taken
	RequestsDenied  uint64 // of staff without the permission
	AuditLost       uint64 // lines of the audit log that could not be written
	Uploads         uint64
	UploadsRefused  uint64
	FilesSent       uint64 // files whose sending has begun
	LinksRefused    uint64 // addresses of files that this server has not made

	Sessions    int64 // WebSocket connections now
	Connects    uint64
	Welcomes    uint64
	Resumes     uint64
	Replayed    uint64
	Truncated   uint64
	Frames      uint64
	Messages    uint64
	Acks        uint64
	Dups        uint64
	Late        uint64
	LaneRejects uint64
	PoolRejects uint64
	BotTurns    uint64
	BotLate     uint64
	BotFailed   uint64
	BotRefused  uint64
	BotAccepted uint64
	BotDups     uint64
	BotCut      uint64
	BotBounds   uint64

	BotNoPlace      uint64
	BotBadCallbacks uint64
	Bots            []hub.BotStats // bots that run elsewhere

	Dropped uint64

	Routed        uint64    // assignments by the router
	RouterRetries uint64    // turns of the router that the store failed
	FeedGaps      uint64    // parts of the store's feed that were missing and were read
	Rebuilds      uint64    // times that everything was read again, because rows of the feed were gone
	Bus           bus.Stats // all zero without one
	BusLost       uint64    // messages to other servers that did not leave
	BusBad        uint64    // messages of other servers that cannot be read
	Timers        uint64    // actions of timers: returns, warnings, closes
	Reconciled    uint64    // counters of agents that were wrong
	Offers        uint64    // conversations offered to another agent
	TargetMisses  uint64    // warnings that a group misses its target for first answers

	Errors map[string]uint64 // error replies by code
	Closes map[string]uint64 // closes by the server by WebSocket close code

	Mail mail.Stats
	Push push.Stats

	Hooks []hooks.Stats // webhooks

	FeedLag store.Latency // until this server knew what others had committed

	Load   hub.Load    // what is open and waiting now
	Store  store.Stats // the database's writer
	Pools  hub.PoolStats
	Engine eddy.Stats
}

// Stats returns the counters. Each is exact, but they are read one after the other.
func (d *Desk) Stats() Stats {
	c, h := &d.front.Counters, &d.hub.Counters
	s := Stats{
		OriginRefused: c.OriginRefused.Load(), CrossSite: c.CrossSite.Load(), Logins: c.Logins.Load(), LoginsFailed: c.LoginsFailed.Load(),
		LoginsThrottled: c.LoginsThrottled.Load(), Visitors: c.Visitors.Load(), VisitorsRefused: c.VisitorsRefused.Load(), SocketsRefused: c.SocketsRefused.Load(),
		IdentitiesBad: c.IdentitiesBad.Load(), RequestsBusy: c.RequestsBusy.Load(), RequestsDenied: c.RequestsDenied.Load(), AuditLost: c.AuditLost.Load() + h.AuditLost.Load(),
		Uploads: c.Uploads.Load(), UploadsRefused: c.UploadsRefused.Load(), FilesSent: c.FilesSent.Load(), LinksRefused: c.LinksRefused.Load(),
		Sessions: h.Sessions.Load(), Connects: h.Connects.Load(), Welcomes: h.Welcomes.Load(), Resumes: h.Resumes.Load(), Replayed: h.Replayed.Load(),
		Truncated: h.Truncated.Load(), Frames: h.Frames.Load(), Messages: h.Messages.Load(), Acks: h.Acks.Load(), Dups: h.Dups.Load(), Late: h.Late.Load(),
		LaneRejects: h.LaneRejects.Load(), PoolRejects: h.PoolRejects.Load(), BotTurns: h.BotTurns.Load(), BotLate: h.BotLate.Load(),
		BotFailed: h.BotFailed.Load(), BotRefused: h.BotRefused.Load(), BotAccepted: h.BotAccepted.Load(), BotDups: h.BotDups.Load(),
		BotCut: h.BotCut.Load(), BotBounds: h.BotBounds.Load(), BotBadCallbacks: h.BotBadCallbacks.Load(), BotNoPlace: h.BotNoPlace.Load(), Bots: d.hub.BotStats(),
		Routed: h.Routed.Load(), RouterRetries: h.RouterRetries.Load(), FeedGaps: h.FeedGaps.Load(), Rebuilds: h.Rebuilds.Load(), Bus: d.busStats(), BusLost: h.BusLost.Load(), BusBad: h.BusBad.Load(), Timers: h.Timers.Load(), Reconciled: h.Reconciled.Load(), Offers: h.Offers.Load(), TargetMisses: h.TargetMisses.Load(),
		Dropped: h.Dropped.Load(), Errors: h.Errors(), Closes: h.Closes(), Mail: d.post.Stats(), Push: d.push.Stats(), FeedLag: d.hub.Lags(), Load: d.hub.Load(), Store: d.store.Stats(), Pools: d.hub.PoolStats(),
	}
	s.Hooks = d.hooks.Stats()
	if d.server != nil {
		s.Engine = d.server.Stats()
	}
	return s
}
