-- The agent of a conversation has put it aside until then, 0 = not.
ALTER TABLE conversation ADD COLUMN snoozed_until INTEGER NOT NULL DEFAULT 0;
CREATE INDEX conversation_snoozed ON conversation (owner_id) WHERE snoozed_until > 0;
