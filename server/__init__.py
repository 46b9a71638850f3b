"""What hosts a server process: disks, status pages, bookie and proxy processes."""
