-- What each conversation has counted in the roll-ups, so that tags can be added and taken away later, a rating can be replaced, and the roll-ups
-- can be made anew from it.
CREATE TABLE counted (
	conversation TEXT NOT NULL REFERENCES conversation (id),
	slot    INTEGER NOT NULL,
	site    TEXT NOT NULL,
	grp     TEXT NOT NULL,
	agent   TEXT NOT NULL,
	measure TEXT NOT NULL,
	bucket  INTEGER NOT NULL,
	n       INTEGER NOT NULL,
	total   INTEGER NOT NULL,
	PRIMARY KEY (conversation, slot, site, grp, agent, measure, bucket)
) STRICT, WITHOUT ROWID;

-- The roll-ups of the conversations of each tag.
CREATE TABLE rollup_tag_15m (
	slot    INTEGER NOT NULL,
	tag     TEXT NOT NULL COLLATE NOCASE,
	site    TEXT NOT NULL,
	grp     TEXT NOT NULL,
	agent   TEXT NOT NULL,
	measure TEXT NOT NULL,
	bucket  INTEGER NOT NULL,
	n       INTEGER NOT NULL,
	total   INTEGER NOT NULL,
	PRIMARY KEY (slot, tag, site, grp, agent, measure, bucket)
) STRICT, WITHOUT ROWID;

-- What both have of conversations that are not kept any more; tag '' = of all of them.
CREATE TABLE rollup_gone (
	slot    INTEGER NOT NULL,
	tag     TEXT NOT NULL COLLATE NOCASE,
	site    TEXT NOT NULL,
	grp     TEXT NOT NULL,
	agent   TEXT NOT NULL,
	measure TEXT NOT NULL,
	bucket  INTEGER NOT NULL,
	n       INTEGER NOT NULL,
	total   INTEGER NOT NULL,
	PRIMARY KEY (slot, tag, site, grp, agent, measure, bucket)
) STRICT, WITHOUT ROWID;

-- What was counted before is not known by conversation: it stays as it is, and tags begin to count now.
INSERT INTO rollup_gone SELECT slot, '', site, grp, agent, measure, bucket, n, total FROM rollup_15m;

-- Scores were read from the conversations until now.
INSERT INTO counted SELECT id, closed_at - closed_at % 900000, site, grp, last_agent, 'rated', score, 1, score
	FROM conversation WHERE state = 'closed' AND score > 0 AND acted_at > 0;
INSERT INTO rollup_15m SELECT slot, site, grp, agent, measure, bucket, sum(n), sum(total) FROM counted WHERE true GROUP BY 1, 2, 3, 4, 5, 6
	ON CONFLICT DO UPDATE SET n = n + excluded.n, total = total + excluded.total;
INSERT INTO rollup_tag_15m SELECT l.slot, t.tag, l.site, l.grp, l.agent, l.measure, l.bucket, sum(l.n), sum(l.total)
	FROM counted l JOIN conversation_tag t ON t.conversation = l.conversation GROUP BY 1, 2, 3, 4, 5, 6, 7;

-- Lists of the rated conversations.
CREATE INDEX conversation_rated ON conversation (opened_at, id) WHERE score > 0;
