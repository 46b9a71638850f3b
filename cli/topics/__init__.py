"""Commands for topics, consumer groups and subscriptions."""
