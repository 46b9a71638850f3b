"""The application's side: ``connect()``, settings, topics, and the production runtime."""
