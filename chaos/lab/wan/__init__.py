"""The real world: every program a process of its own, regions joined by toxiproxy."""
