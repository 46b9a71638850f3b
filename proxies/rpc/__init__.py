"""The gRPC service rhumbline.v1: messages, methods, status codes, server and client calls."""
