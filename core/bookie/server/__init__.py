"""Client-facing code: connections, requests in both wire forms, reads and long polls."""
