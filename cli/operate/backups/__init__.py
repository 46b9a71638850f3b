"""``rhumbline metadata``: backup, restore, rebuild, release; ``rhumbline bookie inventory``."""
