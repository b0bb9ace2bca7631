-- What the roll-ups have of a day of UTC in one value, from which a report reads a year many times faster than from their rows. It is made in the
-- background when the day is over. The triggers forget it when a row of the day changes, so the rows stay the truth.
CREATE TABLE rollup_day (
	day   INTEGER PRIMARY KEY, -- slot / 86400000; every day that rollup_15m has rows of
	rev   INTEGER NOT NULL,    -- grows with each change of the day
	facts BLOB                 -- NULL = not made yet, or forgotten
) STRICT;
CREATE INDEX rollup_day_open ON rollup_day (day) WHERE facts IS NULL;

-- The same of rollup_tag_15m.
CREATE TABLE rollup_tag_day (
	day   INTEGER PRIMARY KEY,
	rev   INTEGER NOT NULL,
	facts BLOB
) STRICT;
CREATE INDEX rollup_tag_day_open ON rollup_tag_day (day) WHERE facts IS NULL;

INSERT INTO rollup_day SELECT DISTINCT slot / 86400000, 1, NULL FROM rollup_15m;
INSERT INTO rollup_tag_day SELECT DISTINCT slot / 86400000, 1, NULL FROM rollup_tag_15m;

CREATE TRIGGER rollup_15m_added AFTER INSERT ON rollup_15m BEGIN
	INSERT INTO rollup_day VALUES (NEW.slot / 86400000, 1, NULL) ON CONFLICT DO UPDATE SET rev = rev + 1, facts = NULL;
END;
CREATE TRIGGER rollup_15m_changed AFTER UPDATE ON rollup_15m BEGIN
	INSERT INTO rollup_day VALUES (NEW.slot / 86400000, 1, NULL) ON CONFLICT DO UPDATE SET rev = rev + 1, facts = NULL;
END;
CREATE TRIGGER rollup_15m_removed AFTER DELETE ON rollup_15m BEGIN
	UPDATE rollup_day SET rev = rev + 1, facts = NULL WHERE day = OLD.slot / 86400000;
END;
CREATE TRIGGER rollup_tag_15m_added AFTER INSERT ON rollup_tag_15m BEGIN
	INSERT INTO rollup_tag_day VALUES (NEW.slot / 86400000, 1, NULL) ON CONFLICT DO UPDATE SET rev = rev + 1, facts = NULL;
END;
CREATE TRIGGER rollup_tag_15m_changed AFTER UPDATE ON rollup_tag_15m BEGIN
	INSERT INTO rollup_tag_day VALUES (NEW.slot / 86400000, 1, NULL) ON CONFLICT DO UPDATE SET rev = rev + 1, facts = NULL;
END;
CREATE TRIGGER rollup_tag_15m_removed AFTER DELETE ON rollup_tag_15m BEGIN
	UPDATE rollup_tag_day SET rev = rev + 1, facts = NULL WHERE day = OLD.slot / 86400000;
END;
