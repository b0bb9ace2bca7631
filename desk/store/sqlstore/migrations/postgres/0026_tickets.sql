-- Tickets that were used and have not expired, so that no other server takes them again.
CREATE TABLE spent_ticket (
	id bytea PRIMARY KEY,
	expires bigint NOT NULL -- Unix milliseconds
);
