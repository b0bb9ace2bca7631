-- rolling: programs that know version 32 go on beside it.
-- Tickets that have expired are deleted with each new one.
CREATE INDEX spent_ticket_expires ON spent_ticket (expires);
