"""The conformance kit: executable checks of the metadata store contract, for any implementation."""
