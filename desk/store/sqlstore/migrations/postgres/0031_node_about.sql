-- rolling: programs that know version 30 go on beside it.
-- What a server says about itself, JSON.
ALTER TABLE node ADD COLUMN about text NOT NULL DEFAULT '';
