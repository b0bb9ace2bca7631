-- Erasing a person. From erased on, the time when it was asked for, the row is an anonymous stub. While erasing is 1,
-- conversations of the contact are left.
ALTER TABLE contact ADD COLUMN erased INTEGER NOT NULL DEFAULT 0;
ALTER TABLE contact ADD COLUMN erasing INTEGER NOT NULL DEFAULT 0;
CREATE INDEX contact_erasing ON contact (id) WHERE erasing = 1;
CREATE INDEX contact_token_contact ON contact_token (contact);

-- What is known of the last visit, as JSON; '' = nothing.
ALTER TABLE contact ADD COLUMN facts TEXT NOT NULL DEFAULT '';

-- What staff have noted about a contact, and the contact that one was merged into: its row stays for its external id.
ALTER TABLE contact ADD COLUMN note TEXT NOT NULL DEFAULT '';
ALTER TABLE contact ADD COLUMN merged TEXT NOT NULL DEFAULT '';
CREATE INDEX contact_merged ON contact (merged) WHERE merged <> '';

-- What contacts are found by: name, external id and attributes, whole and by word, and telephone numbers by their digits.
-- A name that the server has made finds nobody.
CREATE TABLE contact_key (
	contact TEXT NOT NULL REFERENCES contact (id) ON DELETE CASCADE,
	key     TEXT NOT NULL,
	PRIMARY KEY (contact, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX contact_key_key ON contact_key (key, contact);
CREATE TRIGGER contact_key_changed AFTER UPDATE OF name, external, attributes ON contact BEGIN
	DELETE FROM contact_key WHERE contact = NEW.id;
	INSERT OR IGNORE INTO contact_key (contact, key) SELECT NEW.id, lower(substr(key, 1, 100)) FROM (
		SELECT text AS key FROM (SELECT NEW.name AS text WHERE NEW.name NOT GLOB 'Visitor [0-9A-F][0-9A-F][0-9A-F][0-9A-F]' UNION ALL SELECT NEW.external
			UNION ALL SELECT CAST(value AS TEXT) FROM json_each(NEW.attributes))
		UNION SELECT w.value FROM (SELECT NEW.name AS text WHERE NEW.name NOT GLOB 'Visitor [0-9A-F][0-9A-F][0-9A-F][0-9A-F]' UNION ALL SELECT NEW.external
			UNION ALL SELECT CAST(value AS TEXT) FROM json_each(NEW.attributes)) x, json_each('[' || replace(json_quote(x.text), ' ', '","') || ']') w
		UNION SELECT digits FROM (SELECT replace(replace(replace(replace(replace(replace(replace(text, ' ', ''), '-', ''), '.', ''), '/', ''), '(', ''), ')', ''), '+', '') AS digits FROM
			(SELECT NEW.name AS text WHERE NEW.name NOT GLOB 'Visitor [0-9A-F][0-9A-F][0-9A-F][0-9A-F]' UNION ALL SELECT NEW.external
			UNION ALL SELECT CAST(value AS TEXT) FROM json_each(NEW.attributes))) WHERE length(digits) >= 5 AND digits NOT GLOB '*[^0-9]*'
	) WHERE key <> '';
END;
CREATE TRIGGER contact_key_new AFTER INSERT ON contact WHEN NEW.external <> '' OR NEW.attributes <> '{}' OR NEW.name NOT GLOB 'Visitor [0-9A-F][0-9A-F][0-9A-F][0-9A-F]' BEGIN
	UPDATE contact SET name = name WHERE id = NEW.id;
END;
UPDATE contact SET name = name;
