"""Reading a ledger: entries, the LAC, long polls, and the choice of replicas."""
