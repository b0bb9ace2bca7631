CREATE TABLE setting (
	key   TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE workspace (
	id      TEXT PRIMARY KEY,
	name    TEXT NOT NULL,
	created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE site (
	id        TEXT PRIMARY KEY,
	workspace TEXT NOT NULL REFERENCES workspace (id),
	key       TEXT NOT NULL UNIQUE,
	name      TEXT NOT NULL,
	bot_name  TEXT NOT NULL,
	created   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE agent (
	id        TEXT PRIMARY KEY,
	workspace TEXT NOT NULL REFERENCES workspace (id),
	login     TEXT NOT NULL COLLATE NOCASE UNIQUE,
	name      TEXT NOT NULL,
	password  TEXT NOT NULL,
	capacity  INTEGER NOT NULL,
	created   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_session (
	token   BLOB PRIMARY KEY,
	agent   TEXT NOT NULL REFERENCES agent (id) ON DELETE CASCADE,
	created INTEGER NOT NULL,
	seen    INTEGER NOT NULL,
	expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE contact (
	id        TEXT PRIMARY KEY,
	workspace TEXT NOT NULL REFERENCES workspace (id),
	site      TEXT NOT NULL REFERENCES site (id),
	name      TEXT NOT NULL,
	created   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE contact_token (
	token   BLOB PRIMARY KEY,
	contact TEXT NOT NULL REFERENCES contact (id) ON DELETE CASCADE,
	created INTEGER NOT NULL,
	expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE conversation (
	id           TEXT PRIMARY KEY,
	workspace    TEXT NOT NULL REFERENCES workspace (id),
	site         TEXT NOT NULL REFERENCES site (id),
	contact      TEXT NOT NULL REFERENCES contact (id),
	state        TEXT NOT NULL CHECK (state IN ('bot', 'queued', 'assigned', 'closed')),
	owner_kind   TEXT NOT NULL CHECK (owner_kind IN ('', 'bot', 'agent')),
	owner_id     TEXT NOT NULL,
	owner_name   TEXT NOT NULL,
	epoch        INTEGER NOT NULL,
	rev          INTEGER NOT NULL,
	last_seq     INTEGER NOT NULL,
	last_pseq    INTEGER NOT NULL,
	opened_at    INTEGER NOT NULL,
	queued_at    INTEGER NOT NULL,
	assigned_at  INTEGER NOT NULL,
	closed_at    INTEGER NOT NULL,
	close_reason TEXT NOT NULL,
	page         TEXT NOT NULL,
	preview      TEXT NOT NULL,
	preview_from TEXT NOT NULL,
	at           INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX conversation_contact ON conversation (contact, opened_at);
CREATE INDEX conversation_queue ON conversation (queued_at, id) WHERE state = 'queued';
CREATE INDEX conversation_owner ON conversation (owner_id) WHERE state = 'assigned';
CREATE INDEX conversation_open ON conversation (opened_at) WHERE state <> 'closed';

CREATE TABLE message (
	conversation TEXT NOT NULL REFERENCES conversation (id),
	seq          INTEGER NOT NULL,
	pseq         INTEGER,
	id           TEXT NOT NULL,
	kind         TEXT NOT NULL,
	sender_kind  TEXT NOT NULL,
	sender_id    TEXT NOT NULL,
	sender_name  TEXT NOT NULL,
	client_id    TEXT,
	body         TEXT NOT NULL,
	meta         TEXT NOT NULL,
	epoch        INTEGER NOT NULL,
	created      INTEGER NOT NULL,
	PRIMARY KEY (conversation, seq)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX message_pseq ON message (conversation, pseq) WHERE pseq IS NOT NULL;
CREATE UNIQUE INDEX message_client ON message (conversation, sender_kind, sender_id, client_id) WHERE client_id IS NOT NULL;
