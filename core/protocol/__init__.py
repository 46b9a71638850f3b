"""Pure decisions: identifiers, errors, quorums, metadata transitions, record sets. No I/O, no clock."""
