"""Cold stores: a local directory, S3, HDFS, and the checks that each must pass."""
