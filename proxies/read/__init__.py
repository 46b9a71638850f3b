"""The read proxy: one shared tail per stream, block cache, flow control."""
