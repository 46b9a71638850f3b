"""The WAN lab: scenarios as files, played in the simulator or with real processes."""
