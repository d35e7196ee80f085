"""What pages show, as JSON."""
