-- Bots of one more kind.
CREATE TABLE bot_new (
	id        TEXT PRIMARY KEY,
	workspace TEXT NOT NULL REFERENCES workspace (id),
	name      TEXT NOT NULL,
	kind      TEXT NOT NULL CHECK (kind IN ('rules', 'webhook', 'assistant')),
	config    TEXT NOT NULL,
	created   INTEGER NOT NULL,
	UNIQUE (workspace, name)
) STRICT, WITHOUT ROWID;
INSERT INTO bot_new SELECT id, workspace, name, kind, config, created FROM bot;
DROP TABLE bot;
ALTER TABLE bot_new RENAME TO bot;

-- What bots of language models have used, by the day of the server's clock.
CREATE TABLE bot_usage (
	bot        TEXT NOT NULL,
	day        TEXT NOT NULL, -- 2006-01-02
	calls      INTEGER NOT NULL,
	prompt     INTEGER NOT NULL, -- tokens
	completion INTEGER NOT NULL,
	estimated  INTEGER NOT NULL, -- of both, those that the service did not count
	PRIMARY KEY (bot, day)
) STRICT, WITHOUT ROWID;
