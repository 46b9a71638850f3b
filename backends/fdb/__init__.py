"""The metadata store in FoundationDB, on its official bindings."""
