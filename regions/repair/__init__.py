"""Repair of copies: an elected auditor finds missing or misplaced ones, workers copy entries."""
