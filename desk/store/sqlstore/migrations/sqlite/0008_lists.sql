-- Lists of conversations by the time of their opening: of the agent that had them last, and of one tag. All and those of one state have their
-- indexes, and those that are open conversation_open.
CREATE INDEX conversation_agent ON conversation (last_agent, opened_at);

ALTER TABLE conversation_tag ADD COLUMN opened INTEGER NOT NULL DEFAULT 0; -- as opened_at of its conversation, which does not change
UPDATE conversation_tag SET opened = (SELECT c.opened_at FROM conversation c WHERE c.id = conversation_tag.conversation);
DROP INDEX conversation_tag_name;
CREATE INDEX conversation_tag_opened ON conversation_tag (tag, opened, conversation);
