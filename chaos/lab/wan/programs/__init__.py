"""Programs of the lab, each of which runs in its own process."""
