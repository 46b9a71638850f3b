"""``rhumbline top``: samples of a cluster, the rates between two of them, and the screen."""
