-- Mails that wait to be sent, or were given up. Texts are made when a mail is sent, so none is here. A mail that was sent has no row.
CREATE TABLE mail (
	id           TEXT PRIMARY KEY,
	workspace    TEXT NOT NULL REFERENCES workspace (id),
	kind         TEXT NOT NULL,
	recipient    TEXT NOT NULL,
	locale       TEXT NOT NULL,
	conversation TEXT NOT NULL, -- '' = none
	agent        TEXT NOT NULL, -- '' = none
	first        INTEGER NOT NULL, -- messages of the customer's stream that it may have
	upto         INTEGER NOT NULL, -- 0 = it still collects them
	state        TEXT NOT NULL,
	attempts     INTEGER NOT NULL,
	error        TEXT NOT NULL,
	created      INTEGER NOT NULL,
	due          INTEGER NOT NULL,
	expires      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX mail_due ON mail (state, due, id);
CREATE INDEX mail_conversation ON mail (conversation) WHERE conversation <> '';

ALTER TABLE agent ADD COLUMN email TEXT NOT NULL DEFAULT '';

-- Links by which accounts set a new password. Only the SHA-256 of a link's token is kept.
CREATE TABLE password_reset (
	token   BLOB PRIMARY KEY,
	agent   TEXT NOT NULL REFERENCES agent (id),
	expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX password_reset_agent ON password_reset (agent);
