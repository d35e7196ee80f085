"""Three-way merge: what two lines of commits did since they parted, brought together in one commit."""
