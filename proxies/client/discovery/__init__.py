"""The discovery of proxies by a thin client: names, the list that proxies give, failing ones."""
