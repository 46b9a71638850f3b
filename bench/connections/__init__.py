"""The cost of connections to a proxy that carry no traffic."""
