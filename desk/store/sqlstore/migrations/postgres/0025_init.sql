-- The schema of version 25, for PostgreSQL. Later versions have the same numbers as those for SQLite.

-- Compares without regard to case.
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);

CREATE TABLE setting (
	key text COLLATE "C" PRIMARY KEY,
	value text COLLATE "C" NOT NULL
);

CREATE TABLE workspace (
	id text COLLATE "C" PRIMARY KEY,
	name text COLLATE "C" NOT NULL,
	created bigint NOT NULL
);

CREATE TABLE site (
	id text COLLATE "C" PRIMARY KEY,
	workspace text COLLATE "C" NOT NULL REFERENCES workspace (id),
	key text COLLATE "C" NOT NULL UNIQUE,
	name text COLLATE "C" NOT NULL,
	bot_name text COLLATE "C" NOT NULL,
	created bigint NOT NULL,
	grp text COLLATE "C" NOT NULL DEFAULT '',
	reopen_window bigint NOT NULL DEFAULT 86400000,
	reopen_to_bot boolean NOT NULL DEFAULT FALSE,
	settings text COLLATE "C" NOT NULL DEFAULT '{}',
	bot text COLLATE "C" NOT NULL DEFAULT '' -- '' = the built-in one, if bot_name is set
);

CREATE TABLE agent (
	id text COLLATE "C" PRIMARY KEY,
	workspace text COLLATE "C" NOT NULL REFERENCES workspace (id),
	login text COLLATE nocase NOT NULL UNIQUE,
	name text COLLATE "C" NOT NULL,
	password text COLLATE "C" NOT NULL,
	capacity bigint NOT NULL,
	created bigint NOT NULL,
	role text COLLATE "C" NOT NULL DEFAULT 'agent' CHECK (role IN ('agent', 'supervisor', 'admin', 'auditor')),
	locale text COLLATE "C" NOT NULL DEFAULT '',
	disabled boolean NOT NULL DEFAULT FALSE,
	skills text COLLATE "C" NOT NULL DEFAULT '',
	languages text COLLATE "C" NOT NULL DEFAULT '',
	email text COLLATE "C" NOT NULL DEFAULT ''
);

CREATE TABLE agent_session (
	token bytea PRIMARY KEY,
	agent text COLLATE "C" NOT NULL REFERENCES agent (id) ON DELETE CASCADE,
	created bigint NOT NULL,
	seen bigint NOT NULL,
	expires bigint NOT NULL,
	ip text COLLATE "C" NOT NULL DEFAULT '',
	user_agent text COLLATE "C" NOT NULL DEFAULT ''
);

CREATE TABLE contact (
	id text COLLATE "C" PRIMARY KEY,
	workspace text COLLATE "C" NOT NULL REFERENCES workspace (id),
	site text COLLATE "C" NOT NULL REFERENCES site (id),
	name text COLLATE "C" NOT NULL,
	created bigint NOT NULL,
	external text COLLATE "C" NOT NULL DEFAULT '', -- the id in the site's own user base; from signed identities only
	verified boolean NOT NULL DEFAULT FALSE,
	blocked boolean NOT NULL DEFAULT FALSE,
	locale text COLLATE "C" NOT NULL DEFAULT '',
	attributes text COLLATE "C" NOT NULL DEFAULT '{}',
	erased bigint NOT NULL DEFAULT 0, -- when it was asked for, 0 = not; then the row is an anonymous stub
	erasing bigint NOT NULL DEFAULT 0, -- 1 = conversations of the contact are left
	facts text COLLATE "C" NOT NULL DEFAULT '', -- of the last visit, as JSON, '' = nothing
	note text COLLATE "C" NOT NULL DEFAULT '', -- of staff
	merged text COLLATE "C" NOT NULL DEFAULT '' -- the contact that it was merged into, whose external id it keeps, '' = none
);

CREATE TABLE contact_token (
	token bytea PRIMARY KEY,
	contact text COLLATE "C" NOT NULL REFERENCES contact (id) ON DELETE CASCADE,
	created bigint NOT NULL,
	expires bigint NOT NULL
);

CREATE TABLE conversation (
	id text COLLATE "C" PRIMARY KEY,
	workspace text COLLATE "C" NOT NULL REFERENCES workspace (id),
	site text COLLATE "C" NOT NULL REFERENCES site (id),
	contact text COLLATE "C" NOT NULL REFERENCES contact (id),
	state text COLLATE "C" NOT NULL CHECK (state IN ('bot', 'queued', 'assigned', 'deferred', 'closed')),
	owner_kind text COLLATE "C" NOT NULL CHECK (owner_kind IN ('', 'bot', 'agent')),
	owner_id text COLLATE "C" NOT NULL,
	owner_name text COLLATE "C" NOT NULL,
	epoch bigint NOT NULL,
	rev bigint NOT NULL,
	last_seq bigint NOT NULL,
	last_pseq bigint NOT NULL,
	opened_at bigint NOT NULL,
	queued_at bigint NOT NULL,
	assigned_at bigint NOT NULL,
	closed_at bigint NOT NULL,
	close_reason text COLLATE "C" NOT NULL,
	page text COLLATE "C" NOT NULL,
	preview text COLLATE "C" NOT NULL,
	preview_from text COLLATE "C" NOT NULL,
	at bigint NOT NULL,
	grp text COLLATE "C" NOT NULL DEFAULT '',
	priority bigint NOT NULL DEFAULT 20,
	abandoned boolean NOT NULL DEFAULT FALSE,
	waiting_since bigint NOT NULL DEFAULT 0,
	replied_at bigint NOT NULL DEFAULT 0,
	excluded text COLLATE "C" NOT NULL DEFAULT '',
	last_agent text COLLATE "C" NOT NULL DEFAULT '',
	prev text COLLATE "C" NOT NULL DEFAULT '',
	customer_delivered bigint NOT NULL DEFAULT 0,
	customer_read bigint NOT NULL DEFAULT 0,
	staff_delivered bigint NOT NULL DEFAULT 0,
	staff_read bigint NOT NULL DEFAULT 0,
	score bigint NOT NULL DEFAULT 0,
	comment text COLLATE "C" NOT NULL DEFAULT '',
	locale text COLLATE "C" NOT NULL DEFAULT '',
	warned_at bigint NOT NULL DEFAULT 0, -- of closing for want of activity
	left_at bigint NOT NULL DEFAULT 0, -- the customer went away while it waited
	last_agent_at bigint NOT NULL DEFAULT 0,
	answered_at bigint NOT NULL DEFAULT 0, -- an agent's first text since it was opened or queued
	acted_at bigint NOT NULL DEFAULT 0, -- the customer's first action, 0 = none: it counts nowhere
	reply_to text COLLATE "C" NOT NULL DEFAULT '',
	skills text COLLATE "C" NOT NULL DEFAULT '',
	relaxed boolean NOT NULL DEFAULT FALSE,
	snoozed_until bigint NOT NULL DEFAULT 0, -- put aside by its agent until then, 0 = not
	told_warned bigint NOT NULL DEFAULT 0, -- the wait for a first answer that programs were told of last, 0 = none
	told_missed bigint NOT NULL DEFAULT 0
);

CREATE TABLE message (
	conversation text COLLATE "C" NOT NULL REFERENCES conversation (id),
	seq bigint NOT NULL,
	pseq bigint,
	id text COLLATE "C" NOT NULL,
	kind text COLLATE "C" NOT NULL,
	sender_kind text COLLATE "C" NOT NULL,
	sender_id text COLLATE "C" NOT NULL,
	sender_name text COLLATE "C" NOT NULL,
	client_id text COLLATE "C",
	body text COLLATE "C" NOT NULL,
	meta text COLLATE "C" NOT NULL,
	epoch bigint NOT NULL,
	created bigint NOT NULL,
	doc bigint, -- orders it by time among all messages, and is its row in message_words; NULL: not searched yet
	PRIMARY KEY (conversation, seq)
);

CREATE TABLE grp (
	id text COLLATE "C" PRIMARY KEY,
	workspace text COLLATE "C" NOT NULL REFERENCES workspace (id),
	name text COLLATE "C" NOT NULL,
	created bigint NOT NULL,
	settings text COLLATE "C" NOT NULL DEFAULT '{}',
	UNIQUE (workspace, name)
);

CREATE TABLE group_member (
	grp text COLLATE "C" NOT NULL REFERENCES grp (id) ON DELETE CASCADE,
	agent text COLLATE "C" NOT NULL REFERENCES agent (id) ON DELETE CASCADE,
	PRIMARY KEY (grp, agent)
);

CREATE TABLE assignment (
	conversation text COLLATE "C" NOT NULL REFERENCES conversation (id),
	epoch bigint NOT NULL,
	agent text COLLATE "C" NOT NULL REFERENCES agent (id),
	event text COLLATE "C" NOT NULL,
	since bigint NOT NULL,
	until bigint NOT NULL,
	PRIMARY KEY (conversation, epoch)
);

CREATE TABLE conversation_tag (
	conversation text COLLATE "C" NOT NULL REFERENCES conversation (id),
	tag text COLLATE nocase NOT NULL,
	opened bigint NOT NULL DEFAULT 0, -- as opened_at of its conversation, which does not change
	PRIMARY KEY (conversation, tag)
);

CREATE TABLE canned (
	id text COLLATE "C" PRIMARY KEY,
	workspace text COLLATE "C" NOT NULL REFERENCES workspace (id),
	short text COLLATE "C" NOT NULL, -- what follows the slash
	locale text COLLATE "C" NOT NULL, -- '' = every language
	title text COLLATE "C" NOT NULL,
	body text COLLATE "C" NOT NULL,
	grp text COLLATE "C" NOT NULL, -- '' = every group
	created bigint NOT NULL
);

CREATE TABLE attachment (
	id text COLLATE "C" PRIMARY KEY,
	conversation text COLLATE "C" NOT NULL REFERENCES conversation (id),
	seq bigint NOT NULL, -- of its message, 0 = not sent yet
	pos bigint NOT NULL, -- in its message
	uploader_kind text COLLATE "C" NOT NULL,
	uploader_id text COLLATE "C" NOT NULL,
	name text COLLATE "C" NOT NULL,
	mime text COLLATE "C" NOT NULL,
	size bigint NOT NULL,
	width bigint NOT NULL,
	height bigint NOT NULL,
	sha256 bytea NOT NULL,
	storage text COLLATE "C" NOT NULL, -- name in the file store
	state text COLLATE "C" NOT NULL CHECK (state IN ('ready', 'checking', 'refused')),
	created bigint NOT NULL
);

CREATE TABLE bot_turn (
	id text COLLATE "C" PRIMARY KEY,
	conversation text COLLATE "C" NOT NULL REFERENCES conversation (id),
	seq bigint NOT NULL,
	epoch bigint NOT NULL,
	bot text COLLATE "C" NOT NULL,
	bot_name text COLLATE "C" NOT NULL,
	state text COLLATE "C" NOT NULL CHECK (state IN ('asked', 'accepted', 'answered', 'failed', 'late')),
	created bigint NOT NULL,
	until bigint NOT NULL -- of an accepted one
);

CREATE TABLE audit_log (
	id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
	at bigint NOT NULL,
	who_kind text COLLATE "C" NOT NULL,
	who_id text COLLATE "C" NOT NULL,
	who_name text COLLATE "C" NOT NULL,
	action text COLLATE "C" NOT NULL,
	target text COLLATE "C" NOT NULL,
	detail text COLLATE "C" NOT NULL,
	ip text COLLATE "C" NOT NULL
);

CREATE TABLE rollup_15m (
	slot bigint NOT NULL, -- its first millisecond
	site text COLLATE "C" NOT NULL,
	grp text COLLATE "C" NOT NULL, -- '' = none
	agent text COLLATE "C" NOT NULL, -- '' = none
	measure text COLLATE "C" NOT NULL,
	bucket bigint NOT NULL,
	n bigint NOT NULL,
	total bigint NOT NULL, -- milliseconds
	PRIMARY KEY (slot, site, grp, agent, measure, bucket)
);

CREATE TABLE rollup_1m (
	slot bigint NOT NULL,
	grp text COLLATE "C" NOT NULL,
	measure text COLLATE "C" NOT NULL,
	n bigint NOT NULL,
	total bigint NOT NULL,
	PRIMARY KEY (slot, grp, measure)
);

CREATE TABLE api_key (
	id text COLLATE "C" PRIMARY KEY,
	workspace text COLLATE "C" NOT NULL REFERENCES workspace (id),
	token bytea NOT NULL UNIQUE,
	prefix text COLLATE "C" NOT NULL,
	name text COLLATE "C" NOT NULL,
	scopes text COLLATE "C" NOT NULL, -- separated by commas
	by_id text COLLATE "C" NOT NULL,
	by_name text COLLATE "C" NOT NULL,
	created bigint NOT NULL,
	used bigint NOT NULL, -- exact to some minutes, 0 = never
	revoked bigint NOT NULL -- 0 = it works
);

CREATE TABLE agent_filter (
	agent text COLLATE "C" NOT NULL REFERENCES agent (id),
	name text COLLATE "C" NOT NULL,
	fields text COLLATE "C" NOT NULL, -- JSON: what is in the fields of the form
	PRIMARY KEY (agent, name)
);

CREATE TABLE agent_factor (
	agent text COLLATE "C" PRIMARY KEY REFERENCES agent (id),
	secret bytea NOT NULL,
	step bigint NOT NULL, -- of the code that was used last, in units of 30 s
	created bigint NOT NULL
);

CREATE TABLE agent_recovery (
	agent text COLLATE "C" NOT NULL REFERENCES agent (id),
	code bytea NOT NULL,
	PRIMARY KEY (agent, code)
);

CREATE TABLE invitation (
	id text COLLATE "C" PRIMARY KEY,
	token bytea NOT NULL UNIQUE,
	name text COLLATE "C" NOT NULL,
	role text COLLATE "C" NOT NULL,
	grps text COLLATE "C" NOT NULL, -- ids, separated by commas
	by_id text COLLATE "C" NOT NULL,
	by_name text COLLATE "C" NOT NULL,
	created bigint NOT NULL,
	expires bigint NOT NULL,
	ended bigint NOT NULL, -- used or revoked, 0 = neither
	agent text COLLATE "C" NOT NULL -- the account that was made, '' = none
);

CREATE TABLE agent_identity (
	issuer text COLLATE "C" NOT NULL,
	subject text COLLATE "C" NOT NULL,
	agent text COLLATE "C" NOT NULL REFERENCES agent (id),
	created bigint NOT NULL,
	PRIMARY KEY (issuer, subject)
);

CREATE TABLE agent_state (
	agent text COLLATE "C" PRIMARY KEY REFERENCES agent (id) ON DELETE CASCADE,
	active bigint NOT NULL CHECK (active >= 0),
	last_assigned_at bigint NOT NULL,
	status text COLLATE "C" NOT NULL DEFAULT 'offline' CHECK (status IN ('online', 'busy', 'away', 'finishing', 'offline')),
	accepting boolean NOT NULL DEFAULT TRUE,
	missed bigint NOT NULL DEFAULT 0, -- chats in a row that were not answered in time
	gone_at bigint NOT NULL DEFAULT 0 -- the last connection ended then
);

CREATE TABLE bot (
	id text COLLATE "C" PRIMARY KEY,
	workspace text COLLATE "C" NOT NULL REFERENCES workspace (id),
	name text COLLATE "C" NOT NULL,
	kind text COLLATE "C" NOT NULL CHECK (kind IN ('rules', 'webhook', 'assistant')),
	config text COLLATE "C" NOT NULL,
	created bigint NOT NULL,
	UNIQUE (workspace, name)
);

CREATE TABLE bot_usage (
	bot text COLLATE "C" NOT NULL,
	day text COLLATE "C" NOT NULL, -- 2006-01-02
	calls bigint NOT NULL,
	prompt bigint NOT NULL, -- tokens
	completion bigint NOT NULL,
	estimated bigint NOT NULL, -- of both, those that the service did not count
	PRIMARY KEY (bot, day)
);

CREATE TABLE contact_key (
	contact text COLLATE "C" NOT NULL REFERENCES contact (id) ON DELETE CASCADE,
	key text COLLATE "C" NOT NULL,
	PRIMARY KEY (contact, key)
);

CREATE TABLE counted (
	conversation text COLLATE "C" NOT NULL REFERENCES conversation (id),
	slot bigint NOT NULL,
	site text COLLATE "C" NOT NULL,
	grp text COLLATE "C" NOT NULL,
	agent text COLLATE "C" NOT NULL,
	measure text COLLATE "C" NOT NULL,
	bucket bigint NOT NULL,
	n bigint NOT NULL,
	total bigint NOT NULL,
	PRIMARY KEY (conversation, slot, site, grp, agent, measure, bucket)
);

CREATE TABLE rollup_tag_15m (
	slot bigint NOT NULL,
	tag text COLLATE nocase NOT NULL,
	site text COLLATE "C" NOT NULL,
	grp text COLLATE "C" NOT NULL,
	agent text COLLATE "C" NOT NULL,
	measure text COLLATE "C" NOT NULL,
	bucket bigint NOT NULL,
	n bigint NOT NULL,
	total bigint NOT NULL,
	PRIMARY KEY (slot, tag, site, grp, agent, measure, bucket)
);

CREATE TABLE rollup_gone (
	slot bigint NOT NULL,
	tag text COLLATE nocase NOT NULL,
	site text COLLATE "C" NOT NULL,
	grp text COLLATE "C" NOT NULL,
	agent text COLLATE "C" NOT NULL,
	measure text COLLATE "C" NOT NULL,
	bucket bigint NOT NULL,
	n bigint NOT NULL,
	total bigint NOT NULL,
	PRIMARY KEY (slot, tag, site, grp, agent, measure, bucket)
);

CREATE TABLE mail (
	id text COLLATE "C" PRIMARY KEY,
	workspace text COLLATE "C" NOT NULL REFERENCES workspace (id),
	kind text COLLATE "C" NOT NULL,
	recipient text COLLATE "C" NOT NULL,
	locale text COLLATE "C" NOT NULL,
	conversation text COLLATE "C" NOT NULL, -- '' = none
	agent text COLLATE "C" NOT NULL, -- '' = none
	first bigint NOT NULL, -- messages of the customer's stream that it may have
	upto bigint NOT NULL, -- 0 = it still collects them
	state text COLLATE "C" NOT NULL,
	attempts bigint NOT NULL,
	error text COLLATE "C" NOT NULL,
	created bigint NOT NULL,
	due bigint NOT NULL,
	expires bigint NOT NULL
);

CREATE TABLE password_reset (
	token bytea PRIMARY KEY,
	agent text COLLATE "C" NOT NULL REFERENCES agent (id),
	expires bigint NOT NULL
);

CREATE TABLE outbox (
	seq bigint PRIMARY KEY,
	id text COLLATE "C" NOT NULL, -- of the event, unique for ever
	type text COLLATE "C" NOT NULL,
	site text COLLATE "C" NOT NULL,
	conversation text COLLATE "C" NOT NULL, -- '' = of the contact itself
	contact text COLLATE "C" NOT NULL,
	event bigint NOT NULL, -- number in the conversation, 0 = none
	tags text COLLATE "C" NOT NULL, -- those added and removed as JSON, '' = none
	created bigint NOT NULL,
	target text COLLATE "C" NOT NULL DEFAULT '', -- what an event about a target says, as JSON, '' = of another event
	first bigint NOT NULL DEFAULT 0 -- number of the first row of the same command, 0 = its own
);

CREATE TABLE webhook (
	id text COLLATE "C" PRIMARY KEY,
	workspace text COLLATE "C" NOT NULL REFERENCES workspace (id),
	url text COLLATE "C" NOT NULL,
	types text COLLATE "C" NOT NULL, -- separated by commas, '' = all
	site text COLLATE "C" NOT NULL, -- '' = all
	secrets text COLLATE "C" NOT NULL, -- a JSON array, the newest first
	private boolean NOT NULL, -- the address may be one of this machine or of a private network
	by_id text COLLATE "C" NOT NULL,
	by_name text COLLATE "C" NOT NULL,
	created bigint NOT NULL,
	position bigint NOT NULL, -- everything in the outbox up to it is delivered, or in hook_event
	failing bigint NOT NULL, -- since when nothing was delivered, 0 = it works
	failure text COLLATE "C" NOT NULL, -- of the last attempt, '' = it was delivered
	lost bigint NOT NULL -- events that were deleted undelivered
);

CREATE TABLE hook_event (
	webhook text COLLATE "C" NOT NULL REFERENCES webhook (id) ON DELETE CASCADE,
	seq bigint NOT NULL, -- these as in outbox
	id text COLLATE "C" NOT NULL,
	type text COLLATE "C" NOT NULL,
	site text COLLATE "C" NOT NULL,
	conversation text COLLATE "C" NOT NULL,
	contact text COLLATE "C" NOT NULL,
	event bigint NOT NULL,
	tags text COLLATE "C" NOT NULL,
	created bigint NOT NULL,
	attempts bigint NOT NULL,
	due bigint NOT NULL, -- not before the one in front of it
	dead bigint NOT NULL, -- given up then, 0 = not
	failure text COLLATE "C" NOT NULL,
	target text COLLATE "C" NOT NULL DEFAULT '',
	PRIMARY KEY (webhook, seq)
);

CREATE TABLE site_logo (
	site text COLLATE "C" PRIMARY KEY REFERENCES site (id) ON DELETE CASCADE,
	hash text COLLATE "C" NOT NULL, -- of the content, in its address
	type text COLLATE "C" NOT NULL,
	width bigint NOT NULL,
	height bigint NOT NULL,
	content bytea NOT NULL
);

CREATE TABLE push_subscription (
	login bytea PRIMARY KEY REFERENCES agent_session (token) ON DELETE CASCADE,
	endpoint text COLLATE "C" NOT NULL UNIQUE,
	key bytea NOT NULL,
	auth bytea NOT NULL,
	locale text COLLATE "C" NOT NULL,
	saved bigint NOT NULL
);

CREATE TABLE own_field (
	key text COLLATE "C" PRIMARY KEY,
	workspace text COLLATE "C" NOT NULL REFERENCES workspace (id),
	label text COLLATE "C" NOT NULL,
	kind text COLLATE "C" NOT NULL,
	choices text COLLATE "C" NOT NULL, -- JSON
	see text COLLATE "C" NOT NULL,
	edit text COLLATE "C" NOT NULL,
	position bigint NOT NULL
);

CREATE TABLE contact_value (
	contact text COLLATE "C" NOT NULL REFERENCES contact (id) ON DELETE CASCADE,
	field text COLLATE "C" NOT NULL REFERENCES own_field (key),
	value text COLLATE "C" NOT NULL,
	PRIMARY KEY (contact, field)
);

CREATE TABLE rollup_day (
	day bigint PRIMARY KEY, -- slot / 86400000; every day that rollup_15m has rows of
	rev bigint NOT NULL, -- grows with each change of the day
	facts bytea -- NULL = not made yet, or forgotten
);

CREATE TABLE rollup_tag_day (
	day bigint PRIMARY KEY,
	rev bigint NOT NULL,
	facts bytea
);

CREATE UNIQUE INDEX canned_short ON canned (workspace, lower(short), locale, grp);

-- The search. The words of a message are made by the server.
CREATE TABLE message_words (
	doc bigint PRIMARY KEY,
	words tsvector NOT NULL
);
CREATE INDEX message_words_words ON message_words USING gin (words);

CREATE INDEX conversation_contact ON conversation (contact, opened_at);
CREATE INDEX conversation_owner ON conversation (owner_id) WHERE state = 'assigned';
CREATE INDEX conversation_open ON conversation (opened_at) WHERE state <> 'closed';
CREATE UNIQUE INDEX message_pseq ON message (conversation, pseq) WHERE pseq IS NOT NULL;
CREATE UNIQUE INDEX message_client ON message (conversation, sender_kind, sender_id, client_id) WHERE client_id IS NOT NULL;
CREATE INDEX conversation_closed ON conversation (closed_at) WHERE state = 'closed';
CREATE UNIQUE INDEX assignment_open ON assignment (conversation) WHERE until = 0;
CREATE INDEX contact_token_expires ON contact_token (expires);
CREATE UNIQUE INDEX contact_external ON contact (site, external) WHERE external <> '';
CREATE INDEX message_hidden ON message (conversation, seq) WHERE pseq IS NULL;
CREATE UNIQUE INDEX message_doc ON message (doc) WHERE doc IS NOT NULL;
CREATE INDEX message_unindexed ON message (conversation, seq) WHERE doc IS NULL AND kind IN ('text', 'note', 'file');
CREATE INDEX attachment_conversation ON attachment (conversation, seq);
CREATE INDEX attachment_loose ON attachment (created) WHERE seq = 0;
CREATE INDEX attachment_uploader ON attachment (uploader_kind, uploader_id, created);
CREATE INDEX attachment_checking ON attachment (created) WHERE state = 'checking';
CREATE UNIQUE INDEX attachment_storage ON attachment (storage);
CREATE INDEX bot_turn_open ON bot_turn (conversation, seq) WHERE state IN ('asked', 'accepted');
CREATE INDEX audit_log_at ON audit_log (at);
CREATE INDEX conversation_kept ON conversation (site, closed_at) WHERE state = 'closed';
CREATE INDEX bot_turn_conversation ON bot_turn (conversation);
CREATE INDEX api_key_revoked ON api_key (revoked, created);
CREATE INDEX conversation_opened ON conversation (opened_at, id);
CREATE INDEX conversation_state ON conversation (state, opened_at, id);
CREATE INDEX conversation_agent ON conversation (last_agent, opened_at);
CREATE INDEX conversation_tag_opened ON conversation_tag (tag, opened, conversation);
CREATE INDEX invitation_ended ON invitation (ended, created);
CREATE INDEX agent_identity_agent ON agent_identity (agent);
CREATE INDEX conversation_deferred ON conversation (waiting_since, id) WHERE state = 'deferred';
CREATE INDEX conversation_queue ON conversation ((queued_at + priority * 90000), priority, id) WHERE state = 'queued';
CREATE INDEX conversation_behind ON conversation (priority, queued_at) WHERE state = 'queued';
CREATE INDEX contact_erasing ON contact (id) WHERE erasing = 1;
CREATE INDEX contact_token_contact ON contact_token (contact);
CREATE INDEX contact_merged ON contact (merged) WHERE merged <> '';
CREATE INDEX contact_key_key ON contact_key (key, contact);
CREATE INDEX conversation_rated ON conversation (opened_at, id) WHERE score > 0;
CREATE INDEX mail_due ON mail (state, due, id);
CREATE INDEX mail_conversation ON mail (conversation) WHERE conversation <> '';
CREATE INDEX password_reset_agent ON password_reset (agent);
CREATE INDEX outbox_tags ON outbox (conversation) WHERE tags <> '';
CREATE INDEX hook_event_due ON hook_event (webhook, due, seq) WHERE dead = 0;
CREATE INDEX hook_event_lane ON hook_event (webhook, conversation, contact, seq) WHERE dead = 0;
CREATE INDEX hook_event_dead ON hook_event (webhook, seq) WHERE dead > 0;
CREATE INDEX hook_event_conversation ON hook_event (conversation);
CREATE INDEX conversation_snoozed ON conversation (owner_id) WHERE snoozed_until > 0;
CREATE INDEX contact_value_found ON contact_value (field, lower(substr(value, 1, 100)), contact);
CREATE INDEX rollup_day_open ON rollup_day (day) WHERE facts IS NULL;
CREATE INDEX rollup_tag_day_open ON rollup_tag_day (day) WHERE facts IS NULL;

-- What contacts are found by, see contact_key. A name that the server has made finds nobody.
CREATE FUNCTION contact_keys() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'UPDATE' THEN
		DELETE FROM contact_key WHERE contact = NEW.id;
	END IF;
	INSERT INTO contact_key (contact, key)
		WITH texts AS (
			SELECT NEW.name COLLATE "C" AS text WHERE NEW.name !~ '^Visitor [0-9A-F]{4}$'
			UNION ALL SELECT NEW.external COLLATE "C"
			UNION ALL SELECT value COLLATE "C" FROM jsonb_each_text(CAST(regexp_replace(NEW.attributes, '(?<!\\)((\\\\)*)\\u0000', '\1', 'g') AS jsonb)) -- which takes no character 0
		), keys AS (
			SELECT text AS key FROM texts
			UNION SELECT unnest(string_to_array(text, ' ')) FROM texts
			UNION SELECT digits FROM (SELECT translate(text, ' -./()+', '') AS digits FROM texts) d WHERE length(digits) >= 5 AND digits !~ '[^0-9]'
		)
		SELECT DISTINCT NEW.id, lower(substr(key, 1, 100)) FROM keys WHERE key <> '';
	RETURN NULL;
END $$;
CREATE TRIGGER contact_key_changed AFTER INSERT OR UPDATE OF name, external, attributes ON contact FOR EACH ROW EXECUTE FUNCTION contact_keys();

-- Rows of the audit log are only added.
CREATE FUNCTION audit_log_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'the audit log is append only';
END $$;
CREATE TRIGGER audit_log_kept BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_kept();
CREATE TRIGGER audit_log_whole BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_log_kept();

-- The packed days of the roll-ups are forgotten when a row of the day changes, so the rows stay the truth.
CREATE FUNCTION rollup_day_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		UPDATE rollup_day SET rev = rev + 1, facts = NULL WHERE day = OLD.slot / 86400000;
	ELSE
		INSERT INTO rollup_day (day, rev) VALUES (NEW.slot / 86400000, 1) ON CONFLICT (day) DO UPDATE SET rev = rollup_day.rev + 1, facts = NULL;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER rollup_15m_changed AFTER INSERT OR UPDATE OR DELETE ON rollup_15m FOR EACH ROW EXECUTE FUNCTION rollup_day_changed();
CREATE FUNCTION rollup_tag_day_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'DELETE' THEN
		UPDATE rollup_tag_day SET rev = rev + 1, facts = NULL WHERE day = OLD.slot / 86400000;
	ELSE
		INSERT INTO rollup_tag_day (day, rev) VALUES (NEW.slot / 86400000, 1) ON CONFLICT (day) DO UPDATE SET rev = rollup_tag_day.rev + 1, facts = NULL;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER rollup_tag_15m_changed AFTER INSERT OR UPDATE OR DELETE ON rollup_tag_15m FOR EACH ROW EXECUTE FUNCTION rollup_tag_day_changed();

INSERT INTO setting (key, value) VALUES ('outbox_floor', '0'), ('outbox_last', '0');
