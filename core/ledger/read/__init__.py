"""Reading a ledger: entries, the LAC, long polls, and which replica to ask."""
