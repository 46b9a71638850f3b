"""The ends of streams as their bookies know them, and how far subscriptions are behind."""
