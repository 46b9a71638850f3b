"""Exhaustive exploration of small scopes: every order of events over the production classes."""
