"""Pure decisions: identifiers, errors, quorums, metadata changes, record sets. No I/O."""
