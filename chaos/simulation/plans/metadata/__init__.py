"""Plans in which the metadata store itself is lost."""
