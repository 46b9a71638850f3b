"""A soak of everything at once: memory, descriptors, disk and latency must stay flat."""
