-- Tickets that were used and have not expired, so that no other server takes them again.
CREATE TABLE spent_ticket (
	id      BLOB PRIMARY KEY,
	expires INTEGER NOT NULL -- Unix milliseconds
) STRICT, WITHOUT ROWID;
