"""Plans about the disks of bookies."""
