"""Cold storage: archives of completed segments as Parquet files on a disk, in S3 or in HDFS."""
