-- The logo of a site. The content comes last, so that reading what stands before it does not read it.
CREATE TABLE site_logo (
	site    TEXT PRIMARY KEY REFERENCES site (id) ON DELETE CASCADE,
	hash    TEXT NOT NULL, -- of the content, in its address
	type    TEXT NOT NULL,
	width   INTEGER NOT NULL,
	height  INTEGER NOT NULL,
	content BLOB NOT NULL
) STRICT;
