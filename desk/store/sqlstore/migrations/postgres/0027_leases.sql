-- Names that one server at a time holds, for the work that only one may do.
CREATE TABLE lease (
	name text PRIMARY KEY,
	holder text NOT NULL, -- a run of a server, '' = nobody
	token bigint NOT NULL, -- grows with each holder
	until bigint NOT NULL -- Unix milliseconds
);
