"""The index of a namespace's manifests: packs of copies, and a head that names the packs."""
