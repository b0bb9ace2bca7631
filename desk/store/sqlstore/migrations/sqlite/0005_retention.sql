-- Closed conversations are found by site and age, and what belongs to them by conversation.
CREATE INDEX conversation_kept ON conversation (site, closed_at) WHERE state = 'closed';
CREATE INDEX bot_turn_conversation ON bot_turn (conversation);
