"""The commands that measure proxies beside ``bench proxy``."""
