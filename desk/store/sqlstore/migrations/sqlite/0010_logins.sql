-- Second factors of accounts. The secret makes the codes; of recovery codes only the SHA-256 is kept.
CREATE TABLE agent_factor (
	agent   TEXT PRIMARY KEY REFERENCES agent (id),
	secret  BLOB NOT NULL,
	step    INTEGER NOT NULL, -- of the code that was used last, in units of 30 s
	created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_recovery (
	agent TEXT NOT NULL REFERENCES agent (id),
	code  BLOB NOT NULL,
	PRIMARY KEY (agent, code)
) STRICT, WITHOUT ROWID;

-- Links by which somebody makes an account. Only the SHA-256 of a link's token is kept.
CREATE TABLE invitation (
	id      TEXT PRIMARY KEY,
	token   BLOB NOT NULL UNIQUE,
	name    TEXT NOT NULL,
	role    TEXT NOT NULL,
	grps    TEXT NOT NULL,    -- ids, separated by commas
	by_id   TEXT NOT NULL,
	by_name TEXT NOT NULL,
	created INTEGER NOT NULL,
	expires INTEGER NOT NULL,
	ended   INTEGER NOT NULL, -- used or revoked, 0 = neither
	agent   TEXT NOT NULL     -- the account that was made, '' = none
) STRICT, WITHOUT ROWID;
CREATE INDEX invitation_ended ON invitation (ended, created);

-- Who an account is at a provider of single sign-on.
CREATE TABLE agent_identity (
	issuer  TEXT NOT NULL,
	subject TEXT NOT NULL,
	agent   TEXT NOT NULL REFERENCES agent (id),
	created INTEGER NOT NULL,
	PRIMARY KEY (issuer, subject)
) STRICT, WITHOUT ROWID;
CREATE INDEX agent_identity_agent ON agent_identity (agent);
