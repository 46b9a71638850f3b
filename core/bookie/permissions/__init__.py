"""The ledgers that a client of a bookie may use: its frames are checked before they are served."""
