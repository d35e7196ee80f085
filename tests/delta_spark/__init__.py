"""Delta Spark, unmodified, as a client of `quire serve`: `make test-delta-spark`."""
