-- The customer's first action. A conversation without one was opened by a page that nobody wrote on: it counts nowhere.
ALTER TABLE conversation ADD COLUMN acted_at INTEGER NOT NULL DEFAULT 0;
UPDATE conversation SET acted_at = coalesce((SELECT m.created FROM message m WHERE m.conversation = conversation.id AND m.sender_kind = 'customer'
	AND (m.kind IN ('text', 'file') OR m.kind = 'event' AND m.meta ->> '$.change.event' = 'handoff') ORDER BY m.seq LIMIT 1), 0);
-- Where a site asks something first, the answers opened the conversation.
UPDATE conversation SET acted_at = opened_at WHERE acted_at = 0 AND site IN (SELECT id FROM site
	WHERE coalesce(settings ->> '$.consent', '') <> '' OR coalesce(json_array_length(settings, '$.prechat'), 0) > 0);

-- The reports give back what they have counted of the others, event by event as it was counted.
CREATE TEMP TABLE uncounted AS
WITH change AS (
	SELECT m.conversation, m.seq, m.created AS at, c.site, coalesce(m.meta ->> '$.change.group', '') AS grp, m.meta ->> '$.change.event' AS event,
		m.meta ->> '$.change.from' AS was, m.meta ->> '$.change.state' AS state, coalesce(m.meta ->> '$.change.abandoned', 0) AS abandoned,
		iif(m.meta ->> '$.change.owner.Kind' = 'agent', m.meta ->> '$.change.owner.ID', '') AS owner,
		iif(m.meta ->> '$.change.was.Kind' = 'agent', m.meta ->> '$.change.was.ID', '') AS before
	FROM conversation c JOIN message m ON m.conversation = c.id AND m.kind = 'event' WHERE c.acted_at = 0
), timed AS (
	SELECT *, max(iif(state = 'queued' AND event IN ('opened', 'handoff', 'reopened'), at, NULL)) OVER upto AS queued,
		max(iif(owner <> '' AND owner <> before, at, NULL)) OVER earlier AS assigned
	FROM change WINDOW upto AS (PARTITION BY conversation ORDER BY seq), earlier AS (upto ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), counted (at, site, grp, agent, measure, ms) AS (
	SELECT at, site, grp, '', 'opened', 0 FROM timed WHERE event IN ('opened', 'reopened')
	UNION ALL SELECT at, site, grp, '', 'arrived', 0 FROM timed WHERE state = 'queued' AND event IN ('opened', 'handoff', 'reopened')
	UNION ALL SELECT at, site, grp, owner, 'wait', at - queued FROM timed WHERE was = 'queued' AND state = 'assigned' AND coalesce(assigned, 0) < queued
	UNION ALL SELECT at, site, grp, '', iif(state = 'closed', 'contained', 'handoff'), 0 FROM timed WHERE was = 'bot'
	UNION ALL SELECT at, site, grp, before, 'handled', at - assigned FROM timed WHERE before <> '' AND before <> owner
	UNION ALL SELECT at, site, grp, '', 'abandoned', at - queued FROM timed WHERE abandoned
	UNION ALL SELECT at, site, grp, before, 'closed', 0 FROM timed WHERE state = 'closed'
	UNION ALL SELECT c.answered_at, c.site, c.grp, coalesce((SELECT m.sender_id FROM message m WHERE m.conversation = c.id AND m.sender_kind = 'agent'
			AND m.kind IN ('text', 'file') AND m.created = c.answered_at LIMIT 1), ''), 'first',
			c.answered_at - coalesce((SELECT t.queued FROM timed t WHERE t.conversation = c.id AND t.at <= c.answered_at ORDER BY t.seq DESC LIMIT 1), c.assigned_at)
		FROM conversation c WHERE c.acted_at = 0 AND c.answered_at > 0
)
SELECT at - at % 900000 AS slot, site, grp, agent, measure, iif(ms < 1000, 0, min(1 + CAST(4 * log2(ms / 1000.0) AS INTEGER), 90)) AS bucket,
	count(*) AS n, sum(max(ms, 0)) AS total FROM counted GROUP BY 1, 2, 3, 4, 5, 6;
UPDATE rollup_15m AS r SET n = r.n - u.n, total = max(r.total - u.total, 0) FROM uncounted u
	WHERE (r.slot, r.site, r.grp, r.agent, r.measure, r.bucket) = (u.slot, u.site, u.grp, u.agent, u.measure, u.bucket);
DELETE FROM rollup_15m WHERE n <= 0;
DROP TABLE uncounted;
