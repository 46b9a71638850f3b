"""The Grafana dashboards: tables of their panels, and the files made from them."""
