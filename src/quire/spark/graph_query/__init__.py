"""Graph queries on Spark."""
