"""Metadata ensembles of the lab: ZooKeeper, etcd or FoundationDB, with a member in each region."""
