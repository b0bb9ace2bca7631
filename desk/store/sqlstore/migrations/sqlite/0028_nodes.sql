-- Runs of servers that work on this database.
CREATE TABLE node (
	id    TEXT PRIMARY KEY,
	until INTEGER NOT NULL, -- it counts as alive, Unix milliseconds
	told  INTEGER NOT NULL  -- how far it has come with the outbox
) STRICT, WITHOUT ROWID;

-- Who is connected to which of several servers.
CREATE TABLE presence (
	kind TEXT NOT NULL, -- agent, customer
	id   TEXT NOT NULL,
	node TEXT NOT NULL,
	PRIMARY KEY (kind, id, node)
) STRICT, WITHOUT ROWID;
CREATE INDEX presence_node ON presence (node);

-- The server that asks the bot.
ALTER TABLE bot_turn ADD COLUMN node TEXT NOT NULL DEFAULT '';
