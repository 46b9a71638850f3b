"""Records as documents and in files: lines, text with separators, JSON and lengths."""
