"""Security drills: certificates that expire, a revoked principal, a new authority, under load."""
