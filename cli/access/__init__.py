"""The command ``access``: grants, and who may do what."""
