-- From now on the outbox has everything that is committed. Before, rows were written only while a webhook or an API key wanted them. Where
-- nobody does, the floor is raised, so that a cursor from before shows the gap.
INSERT INTO outbox (id, type, site, conversation, contact, event, tags, created, target) SELECT '', '', '', '', '', 0, '', 0, ''
	WHERE EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'outbox') AND NOT EXISTS (SELECT 1 FROM webhook) AND NOT EXISTS (SELECT 1 FROM api_key WHERE revoked = 0 AND instr(',' || scopes || ',', ',events,') > 0);
UPDATE setting SET value = CAST((SELECT max(seq) FROM outbox) AS TEXT) WHERE key = 'outbox_floor' AND EXISTS (SELECT 1 FROM outbox WHERE id = '');
DELETE FROM outbox WHERE id = '';

ALTER TABLE outbox ADD COLUMN first INTEGER NOT NULL DEFAULT 0; -- number of the first row of the same command, 0 = its own
