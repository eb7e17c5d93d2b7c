"""Results of runs: the schema, writing, reading."""
