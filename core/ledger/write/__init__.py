"""Writing a ledger: adds, acknowledgements, ensemble changes, and closing."""
