package store

import (
	"cmp"
	"slices"
	"time"
)

// Status is what an agent says about itself.
type Status string

// Statuses. The router gives conversations to agents that are Online and take chats. An agent chooses Busy and Away, or the
// server chooses Away after missed chats or because the agent does nothing. Finishing keeps the chats that there are, and
// becomes Offline after the last one. Offline means no connection, or that the agent wants to be seen so.
const (
	Online    Status = "online"
	Busy      Status = "busy"
	Away      Status = "away"
	Finishing Status = "finishing"
	Offline   Status = "offline"
)

// Statuses returns every status.
func Statuses() []Status { return []Status{Online, Busy, Away, Finishing, Offline} }

// Valid reports whether the status exists.
func (s Status) Valid() bool { return slices.Contains(Statuses(), s) }

// MissedForAway is the number of chats in a row after which an agent that does not answer in time becomes Away.
const MissedForAway = 2

// StaffMember is an account with what routing needs. Times are Unix milliseconds, 0 = never.
type StaffMember struct {
	AgentAccount
	Status       Status
	Missed       int   // chats in a row that were not answered in time
	GoneAt       int64 // end of the last connection; 0 = there was one when this was written, or never
	Active       int   // conversations
	LastAssigned int64
	Groups       []string // ids
}

// Strategies of a group. The empty string is LeastBusy.
const (
	LeastBusy  = "least_busy"
	RoundRobin = "round_robin"
	Sticky     = "sticky"
	Manual     = "manual"
)

// Strategies returns the names of the strategies, the default first.
func Strategies() []string { return []string{LeastBusy, RoundRobin, Sticky, Manual} }

// Defaults of the times in SiteSettings and GroupSettings.
const (
	DefaultIdleBot    = 15 * time.Minute
	DefaultIdleWait   = 10 * time.Minute
	DefaultIdleChat   = 30 * time.Minute
	DefaultWarnFor    = 2 * time.Minute
	DefaultStickyDays = 7
	DefaultStickyWait = 30 * time.Second
	DefaultRelax      = time.Minute
	DefaultAway       = 10 * time.Minute

	DefaultTargetShare = 80 // percent
)

// BotIdle returns T1 of a site, 0 = never.
func (s *SiteSettings) BotIdle() time.Duration { return span(s.IdleBot, DefaultIdleBot) }

// QueueIdle returns T2 of a site, 0 = never.
func (s *SiteSettings) QueueIdle() time.Duration { return span(s.IdleWait, DefaultIdleWait) }

// ChatIdle returns T3 of a site, 0 = never.
func (s *SiteSettings) ChatIdle() time.Duration { return span(s.IdleChat, DefaultIdleChat) }

// Warning returns the time from the warning to the close.
func (s *SiteSettings) Warning() time.Duration {
	return max(span(s.WarnFor, DefaultWarnFor), time.Millisecond)
}

// Keeps returns for how long closed conversations are kept, 0 = for ever.
func (s *SiteSettings) Keeps() time.Duration { return time.Duration(s.KeepDays) * 24 * time.Hour }

// AcceptIn returns the time for an agent's first answer, 0 = any.
func (g *GroupSettings) AcceptIn() time.Duration { return span(g.Accept, 0) }

// Answers returns how many of its customers, in percent, the group wants to give a first answer, and in which time. 0 means
// that it has no target.
func (g *GroupSettings) Answers() (percent int, in time.Duration) {
	if g.Target <= 0 {
		return 0, 0
	}
	return cmp.Or(g.TargetShare, DefaultTargetShare), span(g.Target, 0)
}

// StickyFor returns for how long the last agent of a customer counts.
func (g *GroupSettings) StickyFor() time.Duration {
	days := g.StickyDays
	if days == 0 {
		days = DefaultStickyDays
	}
	return time.Duration(max(days, 0)) * 24 * time.Hour
}

// StickyWaits returns for how long a conversation waits for the last agent of its customer.
func (g *GroupSettings) StickyWaits() time.Duration { return span(g.StickyWait, DefaultStickyWait) }

// Relaxes returns for how long a conversation waits for an agent with its skills and its language.
func (g *GroupSettings) Relaxes() time.Duration { return span(g.Relax, DefaultRelax) }

// AwayFor returns for how long a customer waits for an agent that is away.
func (g *GroupSettings) AwayFor() time.Duration { return span(g.Away, DefaultAway) }

// span turns the milliseconds of a setting into a duration. 0 means the default, less than 0 means 0.
func span(ms int64, def time.Duration) time.Duration {
	switch {
	case ms == 0:
		return def
	case ms < 0:
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}
