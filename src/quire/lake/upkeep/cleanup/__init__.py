"""Cleanup: which states are kept, what protects them, and the deletion of everything else."""
