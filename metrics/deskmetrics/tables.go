package deskmetrics

import (
	"github.com/go-eddy/eddy/desk"
	"github.com/go-eddy/eddy/desk/hooks"
	"github.com/go-eddy/eddy/desk/hub"
	"github.com/go-eddy/eddy/desk/store"
	"github.com/go-eddy/eddy/metrics/internal/expo"
)

type (
	stats    = desk.Stats
	botStats = hub.BotStats
)

//nolint:gochecknoglobals // tables, never written
var (
	deskTable = expo.Table[stats]{
		expo.Level("eddy_desk_sessions", "WebSocket connections, welcomed or not.", func(s *stats) int64 { return s.Sessions }),
		expo.Count("eddy_desk_connects_total", "WebSocket connections begun.", func(s *stats) uint64 { return s.Connects }),
		expo.Count("eddy_desk_welcomes_total", "Sessions that said hello and were welcomed.", func(s *stats) uint64 { return s.Welcomes }),
		expo.Count("eddy_desk_resumes_total", "Of those, sessions that had seen something before.", func(s *stats) uint64 { return s.Resumes }),
		expo.Count("eddy_desk_replayed_total", "Events sent from the database on a resume.", func(s *stats) uint64 { return s.Replayed }),
		expo.Count("eddy_desk_truncated_total", "Conversations with more than a resume sends.", func(s *stats) uint64 { return s.Truncated }),
		expo.Count("eddy_desk_frames_total", "Messages of clients received.", func(s *stats) uint64 { return s.Frames }),
		expo.Count("eddy_desk_messages_total", "Chat messages committed, of everybody.", func(s *stats) uint64 { return s.Messages }),
		expo.Count("eddy_desk_acks_total", "Acknowledgements sent.", func(s *stats) uint64 { return s.Acks }),
		expo.Count("eddy_desk_duplicates_total", "Messages sent again that were there already.", func(s *stats) uint64 { return s.Dups }),
		expo.Count("eddy_desk_late_commits_total", "Commits after their sender had been told that the service is unavailable.", func(s *stats) uint64 { return s.Late }),
		expo.Count("eddy_desk_dropped_events_total", "Ephemeral events not sent to a slow session.", func(s *stats) uint64 { return s.Dropped }),
		expo.Count("eddy_desk_routed_total", "Conversations given to an agent by the router.", func(s *stats) uint64 { return s.Routed }),
		expo.Count("eddy_desk_router_retries_total", "Turns of the router that the database failed.", func(s *stats) uint64 { return s.RouterRetries }),
		expo.Count("eddy_desk_feed_gaps_total", "Parts of the feed of commits that were missing and were read from the database.", func(s *stats) uint64 { return s.FeedGaps }),
		expo.Count("eddy_desk_feed_rebuilds_total", "Times that all open chats were read again, because rows of the feed were gone.", func(s *stats) uint64 { return s.Rebuilds }),
		expo.Level("eddy_desk_bus_up", "1 while there is a connection to the bus (NATS); 0 also where none is asked for.", func(s *stats) float64 { return expo.One(s.Bus.Up) }),
		expo.Count("eddy_desk_bus_connects_total", "Connections made to the bus.", func(s *stats) uint64 { return s.Bus.Connects }),
		expo.Count("eddy_desk_bus_sent_total", "Messages sent to other servers over the bus.", func(s *stats) uint64 { return s.Bus.Sent }),
		expo.Count("eddy_desk_bus_sent_bytes_total", "Bytes of the messages sent to other servers over the bus.", func(s *stats) uint64 { return s.Bus.SentOf }),
		expo.Count("eddy_desk_bus_heard_total", "Messages of other servers heard over the bus.", func(s *stats) uint64 { return s.Bus.Heard }),
		expo.Count("eddy_desk_bus_heard_bytes_total", "Bytes of the messages of other servers heard over the bus.", func(s *stats) uint64 { return s.Bus.HeardOf }),
		expo.Count("eddy_desk_bus_lost_total", "Messages to other servers that did not leave, and of theirs those that came too fast. The database has what matters of them.", func(s *stats) uint64 { return s.BusLost + s.Bus.Dropped }),
		expo.Count("eddy_desk_bus_refused_total", "Messages on the bus that no server of this Desk has sealed, or that cannot be read.", func(s *stats) uint64 { return s.BusBad + s.Bus.Refused }),
		expo.Count("eddy_desk_timers_total", "Actions of timers: returns, warnings, closes.", func(s *stats) uint64 { return s.Timers }),
		expo.Count("eddy_desk_offers_total", "Conversations offered to another agent.", func(s *stats) uint64 { return s.Offers }),
		expo.Count("eddy_desk_reconciled_total", "Counters of agents that were wrong.", func(s *stats) uint64 { return s.Reconciled }),
		expo.Count("eddy_desk_target_misses_total", "Warnings that a group misses its target for first answers.", func(s *stats) uint64 { return s.TargetMisses }),
		expo.Level("eddy_desk_targets_missed", "Groups that miss their target for first answers now.", func(s *stats) int { return s.Load.Missed }),
		expo.Count("eddy_desk_bot_turns_total", "Turns of bots.", func(s *stats) uint64 { return s.BotTurns }),
		expo.Count("eddy_desk_bot_turns_failed_total", "Turns that ended with an apology, and answers that could not be stored.", func(s *stats) uint64 { return s.BotFailed }),
		expo.Count("eddy_desk_bot_answers_late_total", "Answers discarded because the bot no longer owned the conversation.", func(s *stats) uint64 { return s.BotLate }),
		expo.Count("eddy_desk_logins_total", "Logins of staff.", func(s *stats) uint64 { return s.Logins }),
		expo.Count("eddy_desk_visitors_total", "New visitors.", func(s *stats) uint64 { return s.Visitors }),
		expo.Count("eddy_desk_uploads_total", "Files taken.", func(s *stats) uint64 { return s.Uploads }),
		expo.Count("eddy_desk_files_sent_total", "Files whose sending has begun.", func(s *stats) uint64 { return s.FilesSent }),
		expo.Level("eddy_desk_longest_wait_seconds", "The longest wait of a conversation that is in the queue now.", func(s *stats) float64 { return s.Load.Longest.Seconds() }),
		expo.Level("eddy_desk_store_waiting", "Commands that wait for the database's writer.", func(s *stats) int { return s.Store.Waiting }),
		expo.Count("eddy_desk_store_commits_total", "Transactions committed.", func(s *stats) uint64 { return s.Store.Commits }),
		expo.Count("eddy_desk_store_commands_total", "Commands in them.", func(s *stats) uint64 { return s.Store.Commands }),
		expo.Count("eddy_desk_store_failures_total", "Transactions that the database failed, wholly or in one of their commands.", func(s *stats) uint64 { return s.Store.Failures }),
		expo.Count("eddy_desk_audit_lost_total", "Lines of the audit log that could not be written.", func(s *stats) uint64 { return s.AuditLost }),
		expo.Level("eddy_desk_mails_queued", "Mails that wait for the mail server.", func(s *stats) int { return s.Mail.Queued }),
		expo.Level("eddy_desk_mails_dead", "Mails that were given up and wait for somebody to look at them.", func(s *stats) int { return s.Mail.Kept }),
		expo.Count("eddy_desk_mails_sent_total", "Mails that the mail server has taken.", func(s *stats) uint64 { return s.Mail.Sent }),
		expo.Count("eddy_desk_mails_failed_total", "Attempts to send a mail that have failed.", func(s *stats) uint64 { return s.Mail.Failed }),
		expo.Count("eddy_desk_mails_given_up_total", "Mails given up.", func(s *stats) uint64 { return s.Mail.Dead }),
		expo.Level("eddy_desk_push_waiting", "Agents that are still to be called through a push service.", func(s *stats) int { return s.Push.Waiting }),
		expo.Count("eddy_desk_push_sent_total", "Calls that a push service has taken.", func(s *stats) uint64 { return s.Push.Sent }),
		expo.Count("eddy_desk_push_failed_total", "Requests that a push service has not taken.", func(s *stats) uint64 { return s.Push.Failed }),
		expo.Count("eddy_desk_push_gone_total", "Subscriptions that their push service knows no more.", func(s *stats) uint64 { return s.Push.Gone }),
		expo.Count("eddy_desk_push_lost_total", "Calls given up.", func(s *stats) uint64 { return s.Push.Lost }),
	}.With("desk")

	deskErrors  = expo.Counter("eddy_desk_errors_total", "Commands answered with an error, by its code (desk/PROTOCOL.md).", "desk", "code")
	deskCloses  = expo.Counter("eddy_desk_closed_total", "Sessions that the server closed, by WebSocket close code.", "desk", "code")
	deskRefused = expo.Counter("eddy_desk_refused_total", "What was refused before it became a command, by what: origin, cross_site, login (wrong), login_rate, visitor_rate, socket_limit, identity, busy, permission, upload, link, lane, pool, bot_queue, bot_callback.", "desk", "what")

	deskConnections   = expo.Gauge("eddy_desk_connections", "Welcomed connections, by role: customer, agent, auditor, supervisor, admin.", "desk", "role")
	deskConversations = expo.Gauge("eddy_desk_conversations", "Open conversations, by state: bot, queued (they wait for an agent) and assigned.", "desk", "state")
	storeLatency      = expo.Histogram("eddy_desk_store_command_seconds", "Time from a command's start to its outcome, after the commit; or to the refusal of one whose deadline came first.", "desk")

	feedLag = expo.Histogram("eddy_desk_feed_lag_seconds", "Time from when another server has written something to the database until this one knew it; nothing where one server is alone.", "desk")

	botTable = expo.Table[botStats]{
		expo.Level("eddy_desk_bot_running", "Turns of a webhook bot under way.", func(s *botStats) int { return s.Running }),
		expo.Level("eddy_desk_bot_waiting", "Turns of a webhook bot that wait for a place.", func(s *botStats) int { return s.Waiting }),
		expo.Count("eddy_desk_bot_asked_total", "Requests to a webhook bot.", func(s *botStats) uint64 { return s.Asked }),
		expo.Count("eddy_desk_bot_retried_total", "Of those, second attempts.", func(s *botStats) uint64 { return s.Retried }),
		expo.Count("eddy_desk_bot_accepted_total", "Turns that the bot answers later.", func(s *botStats) uint64 { return s.Accepted }),
		expo.Count("eddy_desk_bot_failed_total", "Turns of a webhook bot that failed.", func(s *botStats) uint64 { return s.Failed }),
		expo.Count("eddy_desk_bot_refused_total", "Turns not tried: the breaker was open or the queue full.", func(s *botStats) uint64 { return s.Refused }),
		expo.Count("eddy_desk_bot_breaker_opened_total", "Times the breaker opened.", func(s *botStats) uint64 { return s.Opened }),
	}.With("desk", "bot")
	botBreaker = expo.Gauge("eddy_desk_bot_breaker", "1 for the state that a webhook bot's breaker is in: closed, open or half_open.", "desk", "bot", "state")

	hookTable = expo.Table[hooks.Stats]{
		expo.Level("eddy_desk_webhook_failing", "1 while a webhook gets one request at a time, because it has failed too often.", func(s *hooks.Stats) float64 { return expo.One(s.Failing) }),
		expo.Level("eddy_desk_webhook_behind", "Events that a webhook has still to be told, at most: those that it does not want are counted, too.", func(s *hooks.Stats) int64 { return s.Behind }),
		expo.Level("eddy_desk_webhook_waiting", "Events that a webhook has failed, with those behind them in their conversations.", func(s *hooks.Stats) int { return s.Waiting }),
		expo.Count("eddy_desk_webhook_delivered_total", "Events that a webhook has taken.", func(s *hooks.Stats) uint64 { return s.Delivered }),
		expo.Count("eddy_desk_webhook_failed_total", "Requests to a webhook that failed.", func(s *hooks.Stats) uint64 { return s.Failed }),
		expo.Count("eddy_desk_webhook_given_up_total", "Events given up after a day.", func(s *hooks.Stats) uint64 { return s.Dead }),
		expo.Count("eddy_desk_webhook_lost_total", "Events deleted before a webhook was told.", func(s *hooks.Stats) uint64 { return s.Lost }),
	}.With("desk", "webhook")

	refusals = []struct {
		what string
		of   func(*stats) uint64
	}{
		{"origin", func(s *stats) uint64 { return s.OriginRefused }},
		{"cross_site", func(s *stats) uint64 { return s.CrossSite }},
		{"login", func(s *stats) uint64 { return s.LoginsFailed }},
		{"login_rate", func(s *stats) uint64 { return s.LoginsThrottled }},
		{"visitor_rate", func(s *stats) uint64 { return s.VisitorsRefused }},
		{"socket_limit", func(s *stats) uint64 { return s.SocketsRefused }},
		{"identity", func(s *stats) uint64 { return s.IdentitiesBad }},
		{"busy", func(s *stats) uint64 { return s.RequestsBusy }},
		{"permission", func(s *stats) uint64 { return s.RequestsDenied }},
		{"upload", func(s *stats) uint64 { return s.UploadsRefused }},
		{"link", func(s *stats) uint64 { return s.LinksRefused }},
		{"lane", func(s *stats) uint64 { return s.LaneRejects }},
		{"pool", func(s *stats) uint64 { return s.PoolRejects }},
		{"bot_queue", func(s *stats) uint64 { return s.BotRefused }},
		{"bot_callback", func(s *stats) uint64 { return s.BotBadCallbacks }},
	}
)

func families() []*expo.Family {
	all := append(deskTable.Families(), deskConnections, deskConversations, storeLatency, feedLag, deskErrors, deskCloses, deskRefused)
	all = append(append(all, botTable.Families()...), botBreaker)
	return append(all, hookTable.Families()...)
}

// putLoad emits the present numbers of connections and conversations.
func putLoad(scrape *expo.Scrape, name string, l *hub.Load) {
	scrape.Put(deskConnections, float64(l.Customers), name, "customer")
	for role, n := range l.Staff {
		scrape.Put(deskConnections, float64(n), name, string(role))
	}
	scrape.Put(deskConversations, float64(l.Bot), name, "bot")
	scrape.Put(deskConversations, float64(l.Queued), name, "queued")
	scrape.Put(deskConversations, float64(l.Assigned), name, "assigned")
}

func putLatency(scrape *expo.Scrape, of *expo.Family, name string, l *store.Latency) {
	upto := make(map[float64]uint64, len(l.Upto))
	for i, n := range l.Upto {
		upto[store.LatencyBound(i).Seconds()] = n
	}
	scrape.PutHistogram(of, l.Count, l.Sum.Seconds(), upto, name)
}
