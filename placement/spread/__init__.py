"""The bookies of an ensemble, spread over zones, racks and hosts in each write set (PLC-28)."""
