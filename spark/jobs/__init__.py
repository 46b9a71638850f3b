"""The Spark jobs, such as archive, verify and convert, run by spark-submit and the CLI."""
