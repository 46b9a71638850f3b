"""Partitioned topics, the consumer groups that read them, and consumers of single records."""

from .client.topics import Topics, consume_records
from .core.log.metadata.acknowledgements import Acknowledgements
from .core.log.metadata.subscriptions import Subscription
from .core.log.topics.consumer_group import Delivery, GroupMember
from .core.log.topics.dead_letters import DeadLetter, DeadLetterSink, dead_letter_in
from .core.log.topics.group_membership import GroupConfig, GroupListener
from .core.log.topics.group_state import GroupDescription, GroupPartition
from .core.log.topics.partitions import ByKey, Partitioner, RoundRobin
from .core.log.topics.record_consumer import ReceivedRecord, RecordConfig, RecordConsumer
from .core.log.topics.record_group import RecordGroupMember
from .core.log.topics.topic_writer import TopicAppendMany, TopicWriter
from .core.log.topics.topics import Topic
from .regions.subscriptions.group_lag import LagTotal, PartitionLag, lag_by_member
from .regions.subscriptions.stream_lag import Lag

__all__ = [
    "Topics",
    "Topic",
    "TopicWriter",
    "TopicAppendMany",
    "Partitioner",
    "ByKey",
    "RoundRobin",
    "GroupConfig",
    "GroupListener",
    "GroupMember",
    "Delivery",
    "RecordConfig",
    "RecordGroupMember",
    "RecordConsumer",
    "ReceivedRecord",
    "consume_records",
    "DeadLetter",
    "DeadLetterSink",
    "dead_letter_in",
    "GroupDescription",
    "GroupPartition",
    "Subscription",
    "Acknowledgements",
    "Lag",
    "PartitionLag",
    "LagTotal",
    "lag_by_member",
]
