"""The bytes that namespaces store, measured from the metadata of ledgers."""
