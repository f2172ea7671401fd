"""Topics made by our own admin command: a worker that finds none of its topics stays silent for ever.

Rule: an existing topic is left alone; one with too few partitions is said, never changed behind its owner's back.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from services.settings import Settings
from services.topics import OUR_TOPICS, Topic, input_topic


class KafkaUnreachable(RuntimeError):
    """No broker answered; str() is one line with the setting to change."""


@dataclass(frozen=True, slots=True)
class Made:
    """What became of one topic."""

    name: str
    created: bool
    sentence: str


def wanted(settings: Settings) -> list[Topic]:
    """Every topic that these settings need: the inputs, then ours."""
    return [*(input_topic(row.topic) for row in settings.inputs), *OUR_TOPICS]


def create_topics(settings: Settings) -> list[Made]:
    """Create what is missing.  Raises KafkaUnreachable."""
    try:
        client = KafkaAdminClient(bootstrap_servers=settings.kafka.split(","), request_timeout_ms=20_000)
    except (KafkaError, OSError) as error:
        raise KafkaUnreachable(
            f"Kafka at {settings.kafka}: {error}; set EXITSIGN_KAFKA, or `exitsign stack up`"
        ) from None
    try:
        return [_create(client, topic, settings) for topic in wanted(settings)]
    finally:
        client.close()


def _create(client: KafkaAdminClient, topic: Topic, settings: Settings) -> Made:
    new = NewTopic(
        name=topic.name,
        num_partitions=topic.partitions or settings.partitions,
        replication_factor=settings.replication,
        topic_configs=topic.config,
    )
    try:
        client.create_topics([new])
    except TopicAlreadyExistsError:
        return Made(topic.name, False, topic.sentence)
    return Made(topic.name, True, topic.sentence)
