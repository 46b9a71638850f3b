"""The simulated world: virtual time, processes, network, disks and metadata store."""
