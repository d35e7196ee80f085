"""The manifest ledger: slots as rows of one Lance table."""
