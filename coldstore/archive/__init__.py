"""Archives of segments: writing, reading, verifying and restoring them."""
