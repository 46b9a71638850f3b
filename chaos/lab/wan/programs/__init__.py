"""Programs of the lab, each run in a process of its own."""
