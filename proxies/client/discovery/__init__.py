"""How a thin client finds the proxies: names, the list that proxies give, and failing ones."""
