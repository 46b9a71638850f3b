"""A game day: outages of real processes, with the commands and alerts of a person on call."""
