"""Pictures of the Grafana dashboards, drawn from what Prometheus answers, without Grafana."""
