"""Pure protocol decisions and types: ids, errors, quorums, metadata changes, record sets."""
