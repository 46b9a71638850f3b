"""The chaos lab: scenario files, played in the simulator or with real processes."""
