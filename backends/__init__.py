"""Metadata stores: memory, SQLite, ZooKeeper, etcd and FoundationDB behind one contract."""
