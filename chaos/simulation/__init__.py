"""The simulator: a whole cluster with its faults, in one thread and virtual time, from one seed."""
