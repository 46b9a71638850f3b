"""The metadata store in Apache ZooKeeper, with the paths and values of Apache BookKeeper."""
