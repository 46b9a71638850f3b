"""The rhumbline command: what an operator types."""

from .main import main

__all__ = ["main"]
