"""The certificates of a running cluster are replaced, authority included, while it is used."""
