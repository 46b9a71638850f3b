"""The entry index: where in the files each entry of each ledger is."""
