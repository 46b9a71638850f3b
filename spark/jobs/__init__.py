"""Jobs over archives: archive, verify, replay; by spark-submit or by ``rhumbline spark``."""
