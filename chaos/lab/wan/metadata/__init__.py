"""Metadata ensembles of the lab: ZooKeeper or etcd, with a member in each region."""
