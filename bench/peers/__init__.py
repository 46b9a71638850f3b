"""Compares this system with others in one sitting, with one load generator for all the others."""
