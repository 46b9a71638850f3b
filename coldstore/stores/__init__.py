"""Cold stores in a local directory, S3 and HDFS, and the conformance checks for them."""
