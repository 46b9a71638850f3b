"""Clients of the servers of this process: who they are, and what is refused to them."""
