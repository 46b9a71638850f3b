"""A whole cluster in one thread and virtual time, with all its faults, from one seed."""
