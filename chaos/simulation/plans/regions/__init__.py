"""Plans about regions: their loss, their placement, their metadata and slow members."""
