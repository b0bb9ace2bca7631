-- Keys of programs that use the integration API. Only the SHA-256 of a secret is kept.
CREATE TABLE api_key (
	id        TEXT PRIMARY KEY,
	workspace TEXT NOT NULL REFERENCES workspace (id),
	token     BLOB NOT NULL UNIQUE,
	prefix    TEXT NOT NULL,
	name      TEXT NOT NULL,
	scopes    TEXT NOT NULL,    -- separated by commas
	by_id     TEXT NOT NULL,
	by_name   TEXT NOT NULL,
	created   INTEGER NOT NULL,
	used      INTEGER NOT NULL, -- exact to some minutes, 0 = never
	revoked   INTEGER NOT NULL  -- 0 = it works
) STRICT, WITHOUT ROWID;
CREATE INDEX api_key_revoked ON api_key (revoked, created);

-- Lists of conversations by the time of their opening, of one state and of all.
CREATE INDEX conversation_opened ON conversation (opened_at, id);
CREATE INDEX conversation_state ON conversation (state, opened_at, id);
