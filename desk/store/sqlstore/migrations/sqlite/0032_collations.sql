-- PostgreSQL's columns get the collation that these have.
SELECT 1;
