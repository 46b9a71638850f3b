"""The scopes that are explored, by what happens in them."""
