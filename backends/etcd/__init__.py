"""The metadata store in etcd, by a thin client of our own on grpc.aio."""
