"""The client for programs without asyncio: the asyncio client in the event loop of a thread."""
