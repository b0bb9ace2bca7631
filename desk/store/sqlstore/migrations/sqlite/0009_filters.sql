-- Filters of the lists of chats that agents have kept under a name.
CREATE TABLE agent_filter (
	agent  TEXT NOT NULL REFERENCES agent (id),
	name   TEXT NOT NULL,
	fields TEXT NOT NULL, -- JSON: what is in the fields of the form
	PRIMARY KEY (agent, name)
) STRICT, WITHOUT ROWID;
