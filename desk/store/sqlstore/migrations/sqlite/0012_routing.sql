-- The queue's order: each point of priority counts as 90 seconds of waiting.
DROP INDEX conversation_queue;
CREATE INDEX conversation_queue ON conversation (queued_at + priority * 90000, priority, id) WHERE state = 'queued';
CREATE INDEX conversation_behind ON conversation (priority, queued_at) WHERE state = 'queued';

-- What an agent must have to get a conversation, and whether waiting has done away with that.
ALTER TABLE conversation ADD COLUMN skills TEXT NOT NULL DEFAULT ''; -- separated by commas, in order
ALTER TABLE conversation ADD COLUMN relaxed INTEGER NOT NULL DEFAULT 0;

-- What agents can do, and which languages they speak: separated by commas, in order.
ALTER TABLE agent ADD COLUMN skills TEXT NOT NULL DEFAULT '';
ALTER TABLE agent ADD COLUMN languages TEXT NOT NULL DEFAULT '';

-- A status more: finishing, before the end of a shift.
CREATE TABLE agent_state_new (
	agent            TEXT PRIMARY KEY REFERENCES agent (id) ON DELETE CASCADE,
	active           INTEGER NOT NULL CHECK (active >= 0),
	last_assigned_at INTEGER NOT NULL,
	status           TEXT NOT NULL DEFAULT 'offline' CHECK (status IN ('online', 'busy', 'away', 'finishing', 'offline')),
	accepting        INTEGER NOT NULL DEFAULT 1,
	missed           INTEGER NOT NULL DEFAULT 0, -- chats in a row that were not answered in time
	gone_at          INTEGER NOT NULL DEFAULT 0  -- the last connection ended then
) STRICT, WITHOUT ROWID;
INSERT INTO agent_state_new (agent, active, last_assigned_at, status, accepting, missed, gone_at)
	SELECT agent, active, last_assigned_at, status, accepting, missed, gone_at FROM agent_state;
DROP TABLE agent_state;
ALTER TABLE agent_state_new RENAME TO agent_state;
