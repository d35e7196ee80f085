"""Data files of a Delta table: rows, types, and which rows are gone."""
