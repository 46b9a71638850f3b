"""Plans about what applications share beside the log: topics, groups and schemas."""
