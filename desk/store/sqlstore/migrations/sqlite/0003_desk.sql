-- Staff: roles, and what the router goes by.
ALTER TABLE agent ADD COLUMN role TEXT NOT NULL DEFAULT 'agent' CHECK (role IN ('agent', 'supervisor', 'admin', 'auditor'));
ALTER TABLE agent ADD COLUMN locale TEXT NOT NULL DEFAULT '';
ALTER TABLE agent ADD COLUMN disabled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE agent_session ADD COLUMN ip TEXT NOT NULL DEFAULT '';
ALTER TABLE agent_session ADD COLUMN user_agent TEXT NOT NULL DEFAULT '';
ALTER TABLE agent_state ADD COLUMN status TEXT NOT NULL DEFAULT 'offline' CHECK (status IN ('online', 'busy', 'away', 'offline'));
ALTER TABLE agent_state ADD COLUMN accepting INTEGER NOT NULL DEFAULT 1;
ALTER TABLE agent_state ADD COLUMN missed INTEGER NOT NULL DEFAULT 0; -- chats in a row that were not answered in time
ALTER TABLE agent_state ADD COLUMN gone_at INTEGER NOT NULL DEFAULT 0; -- the last connection ended then

-- The first account of an installation without roles is its administrator.
UPDATE agent SET role = 'admin' WHERE id = (SELECT id FROM agent ORDER BY created, id LIMIT 1);

-- Sites and groups; the settings are JSON objects.
ALTER TABLE site ADD COLUMN settings TEXT NOT NULL DEFAULT '{}';
ALTER TABLE grp ADD COLUMN settings TEXT NOT NULL DEFAULT '{}';

-- Contacts. The external id is that of the site's own user base and comes from a signed identity only.
ALTER TABLE contact ADD COLUMN external TEXT NOT NULL DEFAULT '';
ALTER TABLE contact ADD COLUMN verified INTEGER NOT NULL DEFAULT 0;
ALTER TABLE contact ADD COLUMN blocked INTEGER NOT NULL DEFAULT 0;
ALTER TABLE contact ADD COLUMN locale TEXT NOT NULL DEFAULT '';
ALTER TABLE contact ADD COLUMN attributes TEXT NOT NULL DEFAULT '{}';
CREATE INDEX contact_token_expires ON contact_token (expires);
CREATE UNIQUE INDEX contact_external ON contact (site, external) WHERE external <> '';

-- Conversations: how far each side has got, and what the customer thought of it.
ALTER TABLE conversation ADD COLUMN customer_delivered INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN customer_read INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN staff_delivered INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN staff_read INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN score INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN comment TEXT NOT NULL DEFAULT '';
ALTER TABLE conversation ADD COLUMN locale TEXT NOT NULL DEFAULT '';
ALTER TABLE conversation ADD COLUMN deferred_until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN warned_at INTEGER NOT NULL DEFAULT 0; -- of closing for want of activity
ALTER TABLE conversation ADD COLUMN left_at INTEGER NOT NULL DEFAULT 0; -- the customer went away while it waited
ALTER TABLE conversation ADD COLUMN last_agent_at INTEGER NOT NULL DEFAULT 0;
UPDATE conversation SET last_agent_at = assigned_at;

CREATE TABLE conversation_tag (
	conversation TEXT NOT NULL REFERENCES conversation (id),
	tag          TEXT NOT NULL COLLATE NOCASE,
	PRIMARY KEY (conversation, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX conversation_tag_name ON conversation_tag (tag, conversation);

-- Notes: where the two streams of a conversation differ.
CREATE INDEX message_hidden ON message (conversation, seq) WHERE pseq IS NULL;

-- Search. A message's doc orders it by time among all messages and is its row in the index, whose words the server makes.
-- NULL: not in the index yet; a background job adds those that are older than the index.
ALTER TABLE message ADD COLUMN doc INTEGER;
CREATE UNIQUE INDEX message_doc ON message (doc) WHERE doc IS NOT NULL;
CREATE INDEX message_unindexed ON message (conversation, seq) WHERE doc IS NULL AND kind IN ('text', 'note', 'file');
CREATE VIRTUAL TABLE message_words USING fts5 (words, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');

CREATE TABLE canned (
	id        TEXT PRIMARY KEY,
	workspace TEXT NOT NULL REFERENCES workspace (id),
	short     TEXT NOT NULL COLLATE NOCASE, -- what follows the slash
	locale    TEXT NOT NULL,                -- '' = every language
	title     TEXT NOT NULL,
	body      TEXT NOT NULL,
	grp       TEXT NOT NULL,                -- '' = every group
	created   INTEGER NOT NULL,
	UNIQUE (workspace, short, locale, grp)
) STRICT, WITHOUT ROWID;

-- Files.
CREATE TABLE attachment (
	id            TEXT PRIMARY KEY,
	conversation  TEXT NOT NULL REFERENCES conversation (id),
	seq           INTEGER NOT NULL, -- of its message, 0 = not sent yet
	pos           INTEGER NOT NULL, -- in its message
	uploader_kind TEXT NOT NULL,
	uploader_id   TEXT NOT NULL,
	name          TEXT NOT NULL,
	mime          TEXT NOT NULL,
	size          INTEGER NOT NULL,
	width         INTEGER NOT NULL,
	height        INTEGER NOT NULL,
	sha256        BLOB NOT NULL,
	storage       TEXT NOT NULL, -- name in the file store
	state         TEXT NOT NULL CHECK (state IN ('ready', 'checking', 'refused')),
	created       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX attachment_conversation ON attachment (conversation, seq);
CREATE INDEX attachment_loose ON attachment (created) WHERE seq = 0;
CREATE INDEX attachment_uploader ON attachment (uploader_kind, uploader_id, created);
CREATE INDEX attachment_checking ON attachment (created) WHERE state = 'checking';
CREATE UNIQUE INDEX attachment_storage ON attachment (storage);

-- Bots: kind and settings, and the turns of those that answer over the network.
CREATE TABLE bot (
	id        TEXT PRIMARY KEY,
	workspace TEXT NOT NULL REFERENCES workspace (id),
	name      TEXT NOT NULL,
	kind      TEXT NOT NULL CHECK (kind IN ('rules', 'webhook')),
	config    TEXT NOT NULL,
	created   INTEGER NOT NULL,
	UNIQUE (workspace, name)
) STRICT, WITHOUT ROWID;
ALTER TABLE site ADD COLUMN bot TEXT NOT NULL DEFAULT ''; -- '' = the built-in one, if bot_name is set

-- A turn is begun in the transaction of what it answers, whose event lends it its id, and ends in that of the answer.
CREATE TABLE bot_turn (
	id           TEXT PRIMARY KEY,
	conversation TEXT NOT NULL REFERENCES conversation (id),
	seq          INTEGER NOT NULL,
	epoch        INTEGER NOT NULL,
	bot          TEXT NOT NULL,
	bot_name     TEXT NOT NULL,
	state        TEXT NOT NULL CHECK (state IN ('asked', 'accepted', 'answered', 'failed', 'late')),
	created      INTEGER NOT NULL,
	until        INTEGER NOT NULL -- of an accepted one
) STRICT, WITHOUT ROWID;
CREATE INDEX bot_turn_open ON bot_turn (conversation, seq) WHERE state IN ('asked', 'accepted');
INSERT INTO bot_turn (id, conversation, seq, epoch, bot, bot_name, state, created, until)
	SELECT m.id, c.id, m.seq, c.epoch, c.owner_id, c.owner_name, 'asked', m.created, 0 FROM conversation c JOIN message m ON m.conversation = c.id
		AND m.seq = (SELECT max(x.seq) FROM message x WHERE x.conversation = c.id) WHERE c.state = 'bot' AND m.sender_kind = 'customer';

-- Who did what to whom. Rows are only added.
CREATE TABLE audit_log (
	id       INTEGER PRIMARY KEY AUTOINCREMENT,
	at       INTEGER NOT NULL,
	who_kind TEXT NOT NULL,
	who_id   TEXT NOT NULL,
	who_name TEXT NOT NULL,
	action   TEXT NOT NULL,
	target   TEXT NOT NULL,
	detail   TEXT NOT NULL,
	ip       TEXT NOT NULL
) STRICT;
CREATE INDEX audit_log_at ON audit_log (at);
CREATE TRIGGER audit_log_kept BEFORE UPDATE ON audit_log BEGIN SELECT RAISE(ABORT, 'the audit log is append only'); END;
CREATE TRIGGER audit_log_once BEFORE INSERT ON audit_log WHEN EXISTS (SELECT 1 FROM audit_log WHERE id = NEW.id)
	BEGIN SELECT RAISE(ABORT, 'the audit log is append only'); END;
CREATE TRIGGER audit_log_whole BEFORE DELETE ON audit_log BEGIN SELECT RAISE(ABORT, 'the audit log is append only'); END;

-- Roll-ups: reports read these and never messages. A bucket is a range of durations (store.BucketOf), 0 where there is none.
ALTER TABLE conversation ADD COLUMN answered_at INTEGER NOT NULL DEFAULT 0; -- an agent's first text since it was opened or queued
CREATE TABLE rollup_15m (
	slot    INTEGER NOT NULL, -- its first millisecond
	site    TEXT NOT NULL,
	grp     TEXT NOT NULL,    -- '' = none
	agent   TEXT NOT NULL,    -- '' = none
	measure TEXT NOT NULL,
	bucket  INTEGER NOT NULL,
	n       INTEGER NOT NULL,
	total   INTEGER NOT NULL, -- milliseconds
	PRIMARY KEY (slot, site, grp, agent, measure, bucket)
) STRICT, WITHOUT ROWID;

-- The same by the minute for the wall, kept for some hours.
CREATE TABLE rollup_1m (
	slot    INTEGER NOT NULL,
	grp     TEXT NOT NULL,
	measure TEXT NOT NULL,
	n       INTEGER NOT NULL,
	total   INTEGER NOT NULL,
	PRIMARY KEY (slot, grp, measure)
) STRICT, WITHOUT ROWID;
