-- Conversations that their agents would like others to take. A row goes with the next change of its conversation's state or owner.
CREATE TABLE offer (
	conversation TEXT PRIMARY KEY,
	id           TEXT NOT NULL,
	from_id      TEXT NOT NULL,
	from_name    TEXT NOT NULL,
	to_id        TEXT NOT NULL,
	to_name      TEXT NOT NULL,
	note         TEXT NOT NULL,
	rev          INTEGER NOT NULL,
	expires      INTEGER NOT NULL, -- Unix milliseconds
	ended        TEXT NOT NULL     -- '' = it stands, declined, expired
) STRICT, WITHOUT ROWID;
