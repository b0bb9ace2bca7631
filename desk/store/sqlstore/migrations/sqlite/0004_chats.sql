-- Accounts that take no chats. The console used to clear accepting together with every status but online; from now on it
-- says what the account does whenever it is online.
UPDATE agent_state SET accepting = 1 WHERE status <> 'online';

-- Administrators take no chats unless they want to, or nobody else can.
UPDATE agent_state SET accepting = 0 WHERE agent IN (SELECT id FROM agent WHERE role = 'admin')
	AND EXISTS (SELECT 1 FROM agent WHERE role IN ('agent', 'supervisor') AND NOT disabled);

-- A capacity of 0 was no limit and is none at all now.
UPDATE agent SET capacity = 1000 WHERE capacity = 0;
