-- What happens, for programs. A row names what has happened and holds no text of anybody but tags: a reader looks it up. seq is never used again.
DROP TABLE outbox;
CREATE TABLE outbox (
	seq          INTEGER PRIMARY KEY AUTOINCREMENT,
	id           TEXT NOT NULL,    -- of the event, unique for ever
	type         TEXT NOT NULL,
	site         TEXT NOT NULL,
	conversation TEXT NOT NULL,    -- '' = of the contact itself
	contact      TEXT NOT NULL,
	event        INTEGER NOT NULL, -- number in the conversation, 0 = none
	tags         TEXT NOT NULL,    -- those added and removed as JSON, '' = none
	created      INTEGER NOT NULL
) STRICT;
CREATE INDEX outbox_tags ON outbox (conversation) WHERE tags <> '';
INSERT INTO setting (key, value) VALUES ('outbox_floor', '0'); -- rows up to this one are gone

-- Programs that are told.
CREATE TABLE webhook (
	id        TEXT PRIMARY KEY,
	workspace TEXT NOT NULL REFERENCES workspace (id),
	url       TEXT NOT NULL,
	types     TEXT NOT NULL,    -- separated by commas, '' = all
	site      TEXT NOT NULL,    -- '' = all
	secrets   TEXT NOT NULL,    -- a JSON array, the newest first
	private   INTEGER NOT NULL, -- the address may be one of this machine or of a private network
	by_id     TEXT NOT NULL,
	by_name   TEXT NOT NULL,
	created   INTEGER NOT NULL,
	position  INTEGER NOT NULL, -- everything in the outbox up to it is delivered, or in hook_event
	failing   INTEGER NOT NULL, -- since when nothing was delivered, 0 = it works
	failure   TEXT NOT NULL,    -- of the last attempt, '' = it was delivered
	lost      INTEGER NOT NULL  -- events that were deleted undelivered
) STRICT, WITHOUT ROWID;

-- What a webhook could not be told yet, with everything of the same conversation behind it, and what it will not be told.
CREATE TABLE hook_event (
	webhook      TEXT NOT NULL REFERENCES webhook (id) ON DELETE CASCADE,
	seq          INTEGER NOT NULL, -- these as in outbox
	id           TEXT NOT NULL,
	type         TEXT NOT NULL,
	site         TEXT NOT NULL,
	conversation TEXT NOT NULL,
	contact      TEXT NOT NULL,
	event        INTEGER NOT NULL,
	tags         TEXT NOT NULL,
	created      INTEGER NOT NULL,
	attempts     INTEGER NOT NULL,
	due          INTEGER NOT NULL, -- not before the one in front of it
	dead         INTEGER NOT NULL, -- given up then, 0 = not
	failure      TEXT NOT NULL,
	PRIMARY KEY (webhook, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX hook_event_due ON hook_event (webhook, due, seq) WHERE dead = 0;
CREATE INDEX hook_event_lane ON hook_event (webhook, conversation, contact, seq) WHERE dead = 0;
CREATE INDEX hook_event_dead ON hook_event (webhook, seq) WHERE dead > 0;
CREATE INDEX hook_event_conversation ON hook_event (conversation);
