-- By what the browser of a login is called while no page is open. It ends with the login.
CREATE TABLE push_subscription (
	login    BLOB PRIMARY KEY REFERENCES agent_session (token) ON DELETE CASCADE,
	endpoint TEXT NOT NULL UNIQUE,
	key      BLOB NOT NULL,
	auth     BLOB NOT NULL,
	locale   TEXT NOT NULL,
	saved    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
