"""The simulated world: virtual time, network, disks, metadata store and processes."""
