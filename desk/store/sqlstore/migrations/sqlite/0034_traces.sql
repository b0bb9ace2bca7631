-- rolling: programs that know version 33 go on beside it.
-- The trace of the command that has written a row, as traceparent has it.
ALTER TABLE outbox ADD COLUMN trace TEXT NOT NULL DEFAULT '';
ALTER TABLE hook_event ADD COLUMN trace TEXT NOT NULL DEFAULT '';
