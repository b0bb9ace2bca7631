-- Fields of contacts that administrators have defined, and their values. They are apart from attributes, which customers,
-- signed identities and bots can change.
CREATE TABLE own_field (
	key       TEXT PRIMARY KEY,
	workspace TEXT NOT NULL REFERENCES workspace (id),
	label     TEXT NOT NULL,
	kind      TEXT NOT NULL,
	choices   TEXT NOT NULL, -- JSON
	see       TEXT NOT NULL,
	edit      TEXT NOT NULL,
	position  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE contact_value (
	contact TEXT NOT NULL REFERENCES contact (id) ON DELETE CASCADE,
	field   TEXT NOT NULL REFERENCES own_field (key),
	value   TEXT NOT NULL,
	PRIMARY KEY (contact, field)
) STRICT, WITHOUT ROWID;
CREATE INDEX contact_value_found ON contact_value (field, lower(substr(value, 1, 100)), contact);
