-- The waits for a first answer that programs were told of last, by the time of the opening or of the queue, whichever is later. 0 = none.
ALTER TABLE conversation ADD COLUMN told_warned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE conversation ADD COLUMN told_missed INTEGER NOT NULL DEFAULT 0;
-- What an event about a target says, as JSON, '' = of another event.
ALTER TABLE outbox ADD COLUMN target TEXT NOT NULL DEFAULT '';
ALTER TABLE hook_event ADD COLUMN target TEXT NOT NULL DEFAULT '';
