"""The processes of a scope: clients, bookies and the metadata store, driven one event at a time."""
