"""Topics, subscriptions and groups, as proxies serve them to their clients."""
