CREATE TABLE grp (
	id        TEXT PRIMARY KEY,
	workspace TEXT NOT NULL REFERENCES workspace (id),
	name      TEXT NOT NULL,
	created   INTEGER NOT NULL,
	UNIQUE (workspace, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE group_member (
	grp   TEXT NOT NULL REFERENCES grp (id) ON DELETE CASCADE,
	agent TEXT NOT NULL REFERENCES agent (id) ON DELETE CASCADE,
	PRIMARY KEY (grp, agent)
) STRICT, WITHOUT ROWID;

ALTER TABLE site ADD COLUMN grp TEXT NOT NULL DEFAULT '';
ALTER TABLE site ADD COLUMN reopen_window INTEGER NOT NULL DEFAULT 86400000;
ALTER TABLE site ADD COLUMN reopen_to_bot INTEGER NOT NULL DEFAULT 0;

ALTER TABLE conversation ADD COLUMN grp TEXT NOT NULL DEFAULT '';
ALTER TABLE conversation ADD COLUMN priority INTEGER NOT NULL DEFAULT 20;
ALTER TABLE conversation ADD COLUMN abandoned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN waiting_since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN replied_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN excluded TEXT NOT NULL DEFAULT '';
ALTER TABLE conversation ADD COLUMN last_agent TEXT NOT NULL DEFAULT '';
ALTER TABLE conversation ADD COLUMN prev TEXT NOT NULL DEFAULT '';

DROP INDEX conversation_queue;
CREATE INDEX conversation_queue ON conversation (priority, queued_at, id) WHERE state = 'queued';
CREATE INDEX conversation_closed ON conversation (closed_at) WHERE state = 'closed';

-- An agent's counter is the row that assignments compete for.
CREATE TABLE agent_state (
	agent            TEXT PRIMARY KEY REFERENCES agent (id) ON DELETE CASCADE,
	active           INTEGER NOT NULL CHECK (active >= 0),
	last_assigned_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE assignment (
	conversation TEXT NOT NULL REFERENCES conversation (id),
	epoch        INTEGER NOT NULL,
	agent        TEXT NOT NULL REFERENCES agent (id),
	event        TEXT NOT NULL,
	since        INTEGER NOT NULL,
	until        INTEGER NOT NULL,
	PRIMARY KEY (conversation, epoch)
) STRICT, WITHOUT ROWID;

-- Never two owners.
CREATE UNIQUE INDEX assignment_open ON assignment (conversation) WHERE until = 0;

CREATE TABLE outbox (
	id           INTEGER PRIMARY KEY AUTOINCREMENT,
	topic        TEXT NOT NULL,
	conversation TEXT NOT NULL,
	seq          INTEGER NOT NULL,
	payload      BLOB NOT NULL,
	created      INTEGER NOT NULL
) STRICT;

-- What version 1 did not keep, as far as it can be told.
UPDATE conversation SET last_agent = owner_id WHERE state = 'assigned';
UPDATE conversation SET waiting_since = at WHERE state <> 'closed' AND preview_from = 'customer';
UPDATE conversation SET abandoned = 1 WHERE state = 'closed' AND queued_at > 0 AND assigned_at = 0;
UPDATE conversation SET replied_at = coalesce((SELECT min(m.created) FROM message m WHERE m.conversation = conversation.id
	AND m.sender_kind = 'agent' AND m.sender_id = conversation.owner_id AND m.kind = 'text' AND m.epoch = conversation.epoch), 0) WHERE state = 'assigned';
INSERT INTO assignment (conversation, epoch, agent, event, since, until)
	SELECT id, epoch, owner_id, 'taken', assigned_at, 0 FROM conversation WHERE state = 'assigned';
INSERT INTO agent_state (agent, active, last_assigned_at)
	SELECT a.id, (SELECT count(*) FROM conversation c WHERE c.state = 'assigned' AND c.owner_id = a.id),
		coalesce((SELECT max(c.assigned_at) FROM conversation c WHERE c.owner_id = a.id), 0) FROM agent a;
