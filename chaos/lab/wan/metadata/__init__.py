"""Metadata ensembles of the lab: ZooKeeper and etcd, with a member in each region."""
