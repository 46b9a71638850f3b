"""Cold storage: archives of completed segments in open files, on a disk, in S3 or in HDFS."""
