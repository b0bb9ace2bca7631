-- Conversations that their agents would like others to take. A row goes with the next change of its conversation's state or owner.
CREATE TABLE offer (
	conversation text PRIMARY KEY,
	id text NOT NULL,
	from_id text NOT NULL,
	from_name text NOT NULL,
	to_id text NOT NULL,
	to_name text NOT NULL,
	note text NOT NULL,
	rev bigint NOT NULL,
	expires bigint NOT NULL, -- Unix milliseconds
	ended text NOT NULL -- '' = it stands, declined, expired
);
