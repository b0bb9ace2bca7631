-- Names are compared by their bytes, as in all other tables. A comparison of columns with two collations finds by no index.
ALTER TABLE bot_turn ALTER COLUMN node TYPE text COLLATE "C";
ALTER TABLE lease ALTER COLUMN name TYPE text COLLATE "C", ALTER COLUMN holder TYPE text COLLATE "C";
ALTER TABLE node ALTER COLUMN id TYPE text COLLATE "C", ALTER COLUMN about TYPE text COLLATE "C";
ALTER TABLE offer ALTER COLUMN conversation TYPE text COLLATE "C", ALTER COLUMN id TYPE text COLLATE "C", ALTER COLUMN from_id TYPE text COLLATE "C",
	ALTER COLUMN from_name TYPE text COLLATE "C", ALTER COLUMN to_id TYPE text COLLATE "C", ALTER COLUMN to_name TYPE text COLLATE "C",
	ALTER COLUMN note TYPE text COLLATE "C", ALTER COLUMN ended TYPE text COLLATE "C";
ALTER TABLE presence ALTER COLUMN kind TYPE text COLLATE "C", ALTER COLUMN id TYPE text COLLATE "C", ALTER COLUMN node TYPE text COLLATE "C";
ALTER TABLE spent ALTER COLUMN node TYPE text COLLATE "C", ALTER COLUMN name TYPE text COLLATE "C", ALTER COLUMN key TYPE text COLLATE "C";
