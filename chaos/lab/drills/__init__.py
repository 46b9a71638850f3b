"""Security drills: certificates that end, a revoked principal, a new authority, under load."""
