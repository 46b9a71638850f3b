"""Partitioned topics: several streams under one name, read by consumer groups."""

from .client.topics import Topics
from .core.log.topics.consumer_group import Delivery, GroupMember
from .core.log.topics.group_membership import GroupConfig
from .core.log.topics.partitions import ByKey, Partitioner, RoundRobin
from .core.log.topics.topics import Topic, TopicWriter

__all__ = [
    "Topics",
    "Topic",
    "TopicWriter",
    "Partitioner",
    "ByKey",
    "RoundRobin",
    "GroupConfig",
    "GroupMember",
    "Delivery",
]
