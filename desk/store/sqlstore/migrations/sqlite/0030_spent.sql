-- What servers have spent of limits that they count together, for a minute.
CREATE TABLE spent (
	seq  INTEGER PRIMARY KEY AUTOINCREMENT,
	node TEXT NOT NULL,
	name TEXT NOT NULL,    -- of the limit
	key  TEXT NOT NULL,    -- digest
	n    REAL NOT NULL,
	at   INTEGER NOT NULL  -- Unix milliseconds
) STRICT;
