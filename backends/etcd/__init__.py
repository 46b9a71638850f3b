"""The metadata store in etcd, with a thin client on grpc.aio."""
