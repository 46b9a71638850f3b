"""Reports of played scenarios: outcomes, service levels, HTML and JUnit pages."""
