-- rolling: programs that know version 31 go on beside it.
-- PostgreSQL's columns get the collation that these have.
SELECT 1;
