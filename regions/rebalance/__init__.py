"""Rebalancing: moves copies of closed ledgers to bookies of the same region that hold less."""
