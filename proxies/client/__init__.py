"""The thin client: writers, readers and producers that go through proxies."""
