"""What Quire is tested with, shipped for those who build on it. Nothing here is loaded by `import quire`."""
