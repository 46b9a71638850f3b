"""The metadata store in Apache ZooKeeper, on the paths and values of Apache BookKeeper."""
