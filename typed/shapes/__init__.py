"""The shapes of schemas in all languages, by which their compatibility is decided."""
