-- Names that one server at a time holds, for the work that only one may do.
CREATE TABLE lease (
	name   TEXT PRIMARY KEY,
	holder TEXT NOT NULL,    -- a run of a server, '' = nobody
	token  INTEGER NOT NULL, -- grows with each holder
	until  INTEGER NOT NULL  -- Unix milliseconds
) STRICT, WITHOUT ROWID;
