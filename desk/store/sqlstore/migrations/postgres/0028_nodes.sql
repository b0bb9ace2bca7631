-- Runs of servers that work on this database.
CREATE TABLE node (
	id text PRIMARY KEY,
	until bigint NOT NULL, -- it counts as alive, Unix milliseconds
	told bigint NOT NULL -- how far it has come with the outbox
);

-- Who is connected to which of several servers.
CREATE TABLE presence (
	kind text NOT NULL, -- agent, customer
	id text NOT NULL,
	node text NOT NULL,
	PRIMARY KEY (kind, id, node)
);
CREATE INDEX presence_node ON presence (node);

-- The server that asks the bot.
ALTER TABLE bot_turn ADD COLUMN node text NOT NULL DEFAULT '';
