"""The command ``security``: certificates of a cluster, and what protects it."""
