-- Messages that customers leave while nobody is there. Such a conversation is 'deferred' until an agent takes it, and answers go to its address.
ALTER TABLE conversation ADD COLUMN reply_to TEXT NOT NULL DEFAULT '';
CREATE INDEX conversation_deferred ON conversation (waiting_since, id) WHERE state = 'deferred';

-- The list of states in the table's definition gets a longer one in its place. To make the table anew would break every reference to it.
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, '''assigned'', ''closed'')', '''assigned'', ''deferred'', ''closed'')') WHERE type = 'table' AND name = 'conversation';
PRAGMA writable_schema = RESET;
