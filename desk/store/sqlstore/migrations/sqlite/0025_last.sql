-- Number of the last row of the outbox, which is never used again.
INSERT INTO setting (key, value) SELECT 'outbox_last', CAST(coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'outbox'), 0) AS TEXT);
