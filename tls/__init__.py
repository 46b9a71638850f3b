"""TLS of connections: certificates on disk, handshakes, and a certificate authority."""
