"""Commands that check archives."""
