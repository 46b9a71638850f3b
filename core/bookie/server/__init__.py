"""What answers clients: connections, requests in both wire forms, reads and long polls."""
