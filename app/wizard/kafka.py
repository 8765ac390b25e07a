"""The fields about the brokers and topics of a new pipeline whose destination is Kafka."""

import streamlit as st

from app.common.view.draft import Draft
from app.wizard import frame
from app.wizard.view import destination_kind
from app.wizard.view.destination_kind import KAFKA_SETTINGS
from engine.spec.kafka_settings import REGISTERED


def fields(draft: Draft) -> None:
    """Nothing for another destination."""
    if destination_kind.kind_of(draft) != destination_kind.KAFKA:
        return
    frame.text("Brokers", draft, *KAFKA_SETTINGS, "servers", placeholder="broker1:9092,broker2:9092")
    frame.choice(
        "Messages",
        draft,
        destination_kind.MESSAGES,
        *KAFKA_SETTINGS,
        "format",
        default="debezium-json",
        help="The key of each message is the row's key.",
    )
    registry = (*KAFKA_SETTINGS, "registry")
    if draft.get(*KAFKA_SETTINGS, "format") in REGISTERED or draft.get(*registry):
        frame.text(
            "Schema registry",
            draft,
            *registry,
            "url",
            placeholder="https://registry:8081",
            help="The URL of Confluent's interface. Apicurio has it under /apis/ccompat/v7.",
        )
    left, right = st.columns(2)
    with left:
        frame.text(
            "Topic",
            draft,
            *KAFKA_SETTINGS,
            "topic",
            placeholder="{database}.{table}",
            help="`{database}` and `{table}` stand for the names of a table. Without them, all tables have one topic.",
        )
    with right:
        frame.number(
            "Partitions of a new topic",
            draft,
            *KAFKA_SETTINGS,
            "partitions",
            default=1,
            min_value=1,
            step=1,
            help="All messages of a key are in one partition, in order.",
        )
    st.caption("TLS, logins, compaction and retention are written in the TOML: `[sink.kafka]`.")
