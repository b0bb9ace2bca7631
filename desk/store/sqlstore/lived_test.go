package sqlstore

// life is what a database of one version of the schema has that those before it did not have.
type life struct {
	made []string // what the migration to this version makes of the rows of the versions before, written by hand
	of   int      // version of these rows, if it is not 1
	rows []string // rows that users of this version add
	gone []string // rows that they add, too, but that no later version has
	till int      // version that removes them

	indexes []string // that are new, or made anew
}

// columns of the tables of version 1, which later versions add to.
const (
	convRow = `INSERT INTO conversation (id, workspace, site, contact, state, owner_kind, owner_id, owner_name, epoch, rev, last_seq, last_pseq,
		opened_at, queued_at, assigned_at, closed_at, close_reason, page, preview, preview_from, at) VALUES `
	messageRow = `INSERT INTO message (conversation, seq, pseq, id, kind, sender_kind, sender_id, sender_name, client_id, body, meta, epoch, created) VALUES `
	contactRow = `INSERT INTO contact (id, workspace, site, name, created) VALUES `
	agentRow   = `INSERT INTO agent (id, workspace, login, name, password, capacity, created) VALUES `
	rollupRow  = `INSERT INTO rollup_15m (slot, site, grp, agent, measure, bucket, n, total) VALUES `
)

// lived returns the life of a database of each version, in the order of the migrations. A new migration needs its entry here: rows for
// what it adds, and what it makes of the rows that there are.
func lived() []life {
	return []life{
		{indexes: []string{"conversation_contact", "conversation_owner", "conversation_open", "message_pseq", "message_client"}, rows: []string{
			`INSERT INTO setting (key, value) VALUES ('store_id', 'the-id')`,
			`INSERT INTO workspace (id, name, created) VALUES ('main', 'Main', 1)`,
			`INSERT INTO site (id, workspace, key, name, bot_name, created) VALUES ('s', 'main', 'demo', 'Demo', 'Eddy', 1)`,
			agentRow + `('lin', 'main', 'lin', 'Lin', 'x', 2, 1), ('moe', 'main', 'moe', 'Moe', 'x', 0, 2)`,
			contactRow + `('a', 'main', 's', 'Ann Lee', 1), ('b', 'main', 's', 'Ben', 1), ('c', 'main', 's', 'Cat', 1), ('d', 'main', 's', 'Dan', 1),
				('e', 'main', 's', 'Visitor 00EE', 1), ('f', 'main', 's', 'Visitor 00FF', 1)`,
			`INSERT INTO contact_token (token, contact, created, expires) VALUES (x'0102', 'a', 1, 4102444800000)`,
			convRow + `('assigned', 'main', 's', 'a', 'assigned', 'agent', 'lin', 'Lin', 3, 3, 2, 2, 10, 20, 30, 0, '', 'https://shop.example', 'hello', 'agent', 40)`,
			convRow + `('queued', 'main', 's', 'b', 'queued', '', '', '', 1, 1, 1, 1, 11, 11, 0, 0, '', '', 'help', 'customer', 50)`,
			convRow + `('abandoned', 'main', 's', 'c', 'closed', '', '', '', 1, 2, 1, 1, 12, 13, 0, 60, 'bye', '', '', '', 60)`,
			convRow + `('served', 'main', 's', 'd', 'closed', '', '', '', 2, 3, 3, 2, 13, 14, 20, 900060, '', '', 'an order', 'customer', 60)`,
			convRow + `('botted', 'main', 's', 'e', 'bot', 'bot', 'rules', 'Eddy', 1, 1, 1, 1, 14, 0, 0, 0, '', '', 'anybody?', 'customer', 70)`,
			convRow + `('silent', 'main', 's', 'f', 'closed', '', '', '', 1, 2, 0, 0, 15, 0, 0, 80, '', '', '', '', 80)`,
			messageRow + `('assigned', 1, 1, 'm1', 'text', 'customer', 'a', 'Ann Lee', 'x1', 'hi', '{}', 1, 15), ('assigned', 2, 2, 'm2', 'text', 'agent', 'lin', 'Lin', 'x2', 'hello', '{}', 3, 40)`,
			messageRow + `('queued', 1, 1, 'm3', 'text', 'customer', 'b', 'Ben', 'x3', 'help', '{}', 1, 50)`,
			messageRow + `('abandoned', 1, 1, 'm4', 'event', 'customer', 'c', 'Cat', NULL, '', '{"change":{"event":"handoff","from":"bot","state":"queued","rev":1,"epoch":1}}', 1, 17)`,
			messageRow + `('served', 1, 1, 'm5', 'text', 'customer', 'd', 'Dan', 'x5', 'an order', '{}', 1, 18), ('served', 2, NULL, 'm6', 'note', 'agent', 'lin', 'Lin', 'x6', 'a regular', '{}', 2, 19),
				('served', 3, 2, 'm7', 'text', 'agent', 'lin', 'Lin', 'x7', 'on its way', '{}', 2, 21)`,
			messageRow + `('botted', 1, 1, 'm8', 'text', 'customer', 'e', 'Visitor 00EE', 'x8', 'anybody?', '{}', 1, 70)`,
		}},
		{indexes: []string{"conversation_closed", "assignment_open"}, made: []string{
			`UPDATE conversation SET last_agent = 'lin', replied_at = 40 WHERE id = 'assigned'`,
			`UPDATE conversation SET waiting_since = 50 WHERE id = 'queued'`,
			`UPDATE conversation SET waiting_since = 70 WHERE id = 'botted'`,
			`UPDATE conversation SET abandoned = 1 WHERE id = 'abandoned'`,
			`INSERT INTO assignment (conversation, epoch, agent, event, since, until) VALUES ('assigned', 3, 'lin', 'taken', 30, 0)`,
			`INSERT INTO agent_state (agent, active, last_assigned_at) VALUES ('lin', 1, 30), ('moe', 0, 0)`,
		}, rows: []string{
			`INSERT INTO grp (id, workspace, name, created) VALUES ('g', 'main', 'Sales', 2)`,
			`INSERT INTO group_member (grp, agent) VALUES ('g', 'lin')`,
			`UPDATE site SET grp = 'g', reopen_window = 3600000, reopen_to_bot = 1`,
			`UPDATE conversation SET grp = 'g', priority = 10 WHERE id = 'queued'`,
			`UPDATE conversation SET grp = 'g', last_agent = 'lin', prev = 'silent', excluded = 'moe' WHERE id = 'served'`,
			`INSERT INTO assignment (conversation, epoch, agent, event, since, until) VALUES ('served', 2, 'lin', 'taken', 20, 60)`,
		}, gone: []string{`INSERT INTO outbox (topic, conversation, seq, payload, created) VALUES ('conv', 'served', 1, x'01', 2)`}, till: 17},
		{indexes: []string{"contact_token_expires", "contact_external", "message_hidden", "message_doc", "message_unindexed", "attachment_conversation", "attachment_loose", "attachment_uploader", "attachment_checking", "attachment_storage", "bot_turn_open", "audit_log_at"}, made: []string{
			`UPDATE agent SET role = 'admin' WHERE id = 'lin'`,
			`UPDATE conversation SET last_agent_at = 30 WHERE id = 'assigned'`,
			`UPDATE conversation SET last_agent_at = 20 WHERE id = 'served'`,
			`INSERT INTO bot_turn (id, conversation, seq, epoch, bot, bot_name, state, created, until) VALUES ('m8', 'botted', 1, 1, 'rules', 'Eddy', 'asked', 70, 0)`,
		}, rows: []string{
			`UPDATE agent SET locale = 'zh-CN' WHERE id = 'moe'`,
			`INSERT INTO agent_session (token, agent, created, seen, expires, ip, user_agent) VALUES (x'0a0b', 'lin', 3, 3, 4102444800000, '192.0.2.1', 'Firefox')`,
			`UPDATE agent_state SET status = 'busy', accepting = 0, missed = 1, gone_at = 33 WHERE agent = 'moe'`,
			`UPDATE site SET settings = '{"color":"#0a716c"}', bot = 'b1'`,
			`UPDATE grp SET settings = '{"strategy":"sticky"}'`,
			`UPDATE contact SET external = 'u-77', verified = 1, locale = 'de', attributes = '{"email":"ann@example.com","phone":"+49 (30) 123-45"}' WHERE id = 'a'`,
			`UPDATE contact SET blocked = 1 WHERE id = 'c'`,
			`UPDATE conversation SET customer_delivered = 2, customer_read = 1, staff_delivered = 2, staff_read = 2, locale = 'de' WHERE id = 'assigned'`,
			`UPDATE conversation SET score = 4, comment = 'quick', answered_at = 21 WHERE id = 'served'`,
			`UPDATE conversation SET warned_at = 5, left_at = 6 WHERE id = 'queued'`,
			`INSERT INTO conversation_tag (conversation, tag) VALUES ('served', 'VIP'), ('served', 'refund')`,
			`INSERT INTO canned (id, workspace, short, locale, title, body, grp, created) VALUES ('c1', 'main', 'hi', '', 'Hi', 'Hello {name}', 'g', 3)`,
			`INSERT INTO attachment (id, conversation, seq, pos, uploader_kind, uploader_id, name, mime, size, width, height, sha256, storage, state, created)
				VALUES ('f1', 'served', 0, 0, 'customer', 'd', 'photo.png', 'image/png', 1000, 4, 3, x'0c', 'st1', 'ready', 3)`,
			`INSERT INTO bot (id, workspace, name, kind, config, created) VALUES ('b1', 'main', 'Helper', 'webhook', '{"url":"https://bot.example"}', 3)`,
			`INSERT INTO audit_log (at, who_kind, who_id, who_name, action, target, detail, ip) VALUES (3, 'agent', 'lin', 'Lin', 'search', 'all', '', '')`,
			rollupRow + `(0, 's', '', '', 'opened', 0, 4, 0), (0, 's', 'g', 'lin', 'wait', 1, 2, 2400)`,
			`INSERT INTO rollup_1m (slot, grp, measure, n, total) VALUES (0, 'g', 'arrived', 2, 0)`,
		}},
		{made: []string{
			`UPDATE agent_state SET accepting = 1 WHERE agent = 'moe'`,
			`UPDATE agent_state SET accepting = 0 WHERE agent = 'lin'`,
			`UPDATE agent SET capacity = 1000 WHERE id = 'moe'`,
		}},
		{indexes: []string{"conversation_kept", "bot_turn_conversation"}},
		{indexes: []string{"api_key_revoked", "conversation_opened", "conversation_state"}, rows: []string{
			`INSERT INTO api_key (id, workspace, token, prefix, name, scopes, by_id, by_name, created, used, revoked) VALUES ('k1', 'main', x'0d', 'desk_ab', 'Shop', 'read,send', 'lin', 'Lin', 6, 7, 0)`,
		}},
		{made: []string{
			`UPDATE conversation SET acted_at = CASE id WHEN 'assigned' THEN 15 WHEN 'queued' THEN 50 WHEN 'abandoned' THEN 17 WHEN 'served' THEN 18 WHEN 'botted' THEN 70 ELSE 0 END`,
		}},
		{indexes: []string{"conversation_agent", "conversation_tag_opened"}, made: []string{`UPDATE conversation_tag SET opened = 13`}},
		{rows: []string{`INSERT INTO agent_filter (agent, name, fields) VALUES ('lin', 'Refunds', '{"tag":"refund"}'), ('moe', 'Refunds', '{"tag":"x"}')`}},
		{indexes: []string{"invitation_ended", "agent_identity_agent"}, rows: []string{
			`INSERT INTO agent_factor (agent, secret, step, created) VALUES ('moe', x'0e', 77, 10)`,
			`INSERT INTO agent_recovery (agent, code) VALUES ('moe', x'0f'), ('moe', x'10')`,
			`INSERT INTO invitation (id, token, name, role, grps, by_id, by_name, created, expires, ended, agent) VALUES ('i1', x'11', 'Zoe', 'agent', 'g', 'lin', 'Lin', 10, 4102444800000, 0, '')`,
			`INSERT INTO agent_identity (issuer, subject, agent, created) VALUES ('https://login.example', '1', 'moe', 10)`,
		}},
		{indexes: []string{"conversation_deferred"}, rows: []string{
			contactRow + `('g', 'main', 's', 'Gus', 11)`,
			convRow + `('left', 'main', 's', 'g', 'deferred', '', '', '', 1, 1, 1, 1, 16, 0, 0, 0, '', '', 'later', 'customer', 90)`,
			`UPDATE conversation SET reply_to = 'gus@example.com', waiting_since = 90, acted_at = 90 WHERE id = 'left'`,
			messageRow + `('left', 1, 1, 'm9', 'text', 'customer', 'g', 'Gus', 'x9', 'later', '{}', 1, 90)`,
		}},
		{indexes: []string{"conversation_queue", "conversation_behind"}, rows: []string{
			agentRow + `('kim', 'main', 'kim', 'Kim', 'x', 3, 12)`,
			`INSERT INTO agent_state (agent, active, last_assigned_at, status) VALUES ('kim', 0, 0, 'finishing')`,
			`UPDATE agent SET skills = 'returns,vip', languages = 'de,en' WHERE id = 'kim'`,
			`UPDATE conversation SET skills = 'returns', relaxed = 1 WHERE id = 'queued'`,
		}},
		{rows: []string{
			`INSERT INTO bot (id, workspace, name, kind, config, created) VALUES ('b2', 'main', 'Writer', 'assistant', '{}', 13)`,
			`INSERT INTO bot_usage (bot, day, calls, prompt, completion, estimated) VALUES ('b2', '2026-01-01', 3, 100, 20, 5)`,
		}},
		{indexes: []string{"contact_erasing", "contact_token_contact", "contact_merged", "contact_key_key"}, rows: []string{
			`UPDATE contact SET note = 'calls on Mondays', facts = '{"page":"https://shop.example"}' WHERE id = 'a'`,
			contactRow + `('h', 'main', 's', 'Visitor 0011', 14), ('i', 'main', 's', 'Visitor 0012', 14)`,
			`UPDATE contact SET merged = 'b', external = 'u-78' WHERE id = 'h'`,
			`UPDATE contact SET erased = 14, erasing = 1, blocked = 1 WHERE id = 'i'`,
		}},
		{indexes: []string{"conversation_rated"}, made: []string{
			`INSERT INTO rollup_gone (slot, tag, site, grp, agent, measure, bucket, n, total) VALUES (0, '', 's', '', '', 'opened', 0, 4, 0), (0, '', 's', 'g', 'lin', 'wait', 1, 2, 2400)`,
			`INSERT INTO counted (conversation, slot, site, grp, agent, measure, bucket, n, total) VALUES ('served', 900000, 's', 'g', 'lin', 'rated', 4, 1, 4)`,
			rollupRow + `(900000, 's', 'g', 'lin', 'rated', 4, 1, 4)`,
			`INSERT INTO rollup_tag_15m (slot, tag, site, grp, agent, measure, bucket, n, total) VALUES (900000, 'VIP', 's', 'g', 'lin', 'rated', 4, 1, 4), (900000, 'refund', 's', 'g', 'lin', 'rated', 4, 1, 4)`,
		}, of: 3, rows: []string{
			rollupRow + `(0, 's', 'g', '', 'handoff', 0, 1, 0)`,
			`INSERT INTO counted (conversation, slot, site, grp, agent, measure, bucket, n, total) VALUES ('left', 0, 's', 'g', '', 'handoff', 0, 1, 0)`,
		}},
		{indexes: []string{"mail_due", "mail_conversation", "password_reset_agent"}, rows: []string{
			`INSERT INTO mail (id, workspace, kind, recipient, locale, conversation, agent, first, upto, state, attempts, error, created, due, expires)
				VALUES ('e1', 'main', 'answers', 'gus@example.com', '', 'left', '', 2, 0, 'queued', 0, '', 16, 17, 4102444800000), ('e2', 'main', 'test', 'x@example.com', '', '', '', 0, 0, 'dead', 3, '550 no', 16, 17, 18)`,
			`UPDATE agent SET email = 'kim@shop.example' WHERE id = 'kim'`,
			`INSERT INTO password_reset (token, agent, expires) VALUES (x'12', 'kim', 4102444800000)`,
		}},
		{indexes: []string{"outbox_tags", "hook_event_due", "hook_event_lane", "hook_event_dead", "hook_event_conversation"}, rows: []string{
			`INSERT INTO webhook (id, workspace, url, types, site, secrets, private, by_id, by_name, created, position, failing, failure, lost)
				VALUES ('w1', 'main', 'https://shop.example', 'conversation.opened', 's', '["a secret of sixteen bytes"]', 1, 'lin', 'Lin', 17, 0, 17, 'status 500', 2)`,
			`INSERT INTO outbox (id, type, site, conversation, contact, event, tags, created) VALUES ('o1', 'conversation.tags', 's', 'served', 'd', 0, '{"added":["VIP"]}', 17)`,
			`INSERT INTO hook_event (webhook, seq, id, type, site, conversation, contact, event, tags, created, attempts, due, dead, failure)
				VALUES ('w1', 1, 'o1', 'conversation.tags', 's', 'served', 'd', 0, '{"added":["VIP"]}', 17, 1, 99, 0, 'status 500')`,
		}},
		{indexes: []string{"conversation_snoozed"}, rows: []string{
			`UPDATE conversation SET snoozed_until = 4102444800000 WHERE id = 'assigned'`,
			`UPDATE agent_state SET active = 0 WHERE agent = 'lin'`,
		}},
		{rows: []string{`INSERT INTO site_logo (site, hash, type, width, height, content) VALUES ('s', 'abc', 'image/png', 1, 1, x'89')`}},
		{rows: []string{`UPDATE conversation SET told_warned = 11 WHERE id = 'queued'`}},
		{rows: []string{`INSERT INTO push_subscription (login, endpoint, key, auth, locale, saved) VALUES (x'0a0b', 'https://push.example/1', x'04', x'07', 'en', 18)`}},
		{indexes: []string{"contact_value_found"}, rows: []string{
			`INSERT INTO own_field (key, workspace, label, kind, choices, see, edit, position) VALUES ('plan', 'main', 'Plan', 'text', '[]', 'agent', 'agent', 0)`,
			`INSERT INTO contact_value (contact, field, value) VALUES ('d', 'plan', 'Gold')`,
		}},
		{indexes: []string{"rollup_day_open", "rollup_tag_day_open"}, rows: []string{rollupRow + `(86400000, 's', '', '', 'opened', 0, 1, 0)`, `INSERT INTO rollup_gone (slot, tag, site, grp, agent, measure, bucket, n, total) VALUES (86400000, '', 's', '', '', 'opened', 0, 1, 0)`}},
		{rows: []string{`INSERT INTO outbox (id, type, site, conversation, contact, event, tags, created, first) VALUES ('o2', 'conversation.opened', 's', 'queued', 'b', 1, '', 19, 2)`}},
		{made: []string{`UPDATE setting SET value = CAST((SELECT coalesce(max(seq), 0) FROM outbox) AS TEXT) WHERE key = 'outbox_last'`}},
		{rows: []string{`INSERT INTO spent_ticket (id, expires) VALUES (x'0c', 20)`}},
		{rows: []string{`INSERT INTO lease (name, holder, token, until) VALUES ('router', 'n1', 3, 21)`}},
		{indexes: []string{"presence_node"}, rows: []string{
			`INSERT INTO node (id, until, told) VALUES ('n1', 22, 7)`,
			`INSERT INTO presence (kind, id, node) VALUES ('agent', 'lin', 'n1')`,
			`UPDATE bot_turn SET node = 'n1' WHERE id = 'm8'`,
		}},
		{rows: []string{`INSERT INTO offer (conversation, id, from_id, from_name, to_id, to_name, note, rev, expires, ended) VALUES ('assigned', 'f1', 'lin', 'Lin', 'kim', 'Kim', 'please', 2, 23, '')`}},
		{rows: []string{`INSERT INTO spent (node, name, key, n, at) VALUES ('n1', 'chats 120', 'k', 1, 24)`}},
		{rows: []string{`UPDATE node SET about = '{"name":"one"}' WHERE id = 'n1'`}},
		{}, // collations of PostgreSQL
		{indexes: []string{"spent_ticket_expires"}},
		{rows: []string{`UPDATE outbox SET trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' WHERE id = 'o2'`, `UPDATE hook_event SET trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' WHERE id = 'o1'`}},
	}
}
