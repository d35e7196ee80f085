"""The plain HEAD of a Lance table: what clients see that know nothing of Quire, and what they write."""
