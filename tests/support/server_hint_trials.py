"""The part of `hint_trials` for destinations on servers: Kafka and databases."""

from tests.support.hint_kinds import INPUT, OUTSIDE, WAIT, Trials

OF_SERVERS: dict[str, tuple[int, Trials]] = {
    "run/lifecycle/destination_check.py::": (1, OUTSIDE),
    "destination/database/database_terms.py::DatabaseTerms._compare": (1, OUTSIDE),
    "destination/database/mysql.py::_require_room": (
        1,
        ("test_databases.py::test_a_unique_index_stops_a_table_until_it_is_dropped",),
    ),
    "destination/database/mysql.py::MysqlServer.require_own_index": (
        2,
        ("test_databases.py::test_a_unique_index_stops_a_table_until_it_is_dropped",),
    ),
    "destination/database/postgresql.py::_field": (
        1,
        ("test_databases.py::test_what_stops_a_table_is_ended_as_its_hint_says",),
    ),
    "destination/database/postgresql_reads.py::_parsed": (
        1,
        ("test_verify_databases.py::test_values_and_tables_that_cannot_be_read_are_repaired_as_the_hint_says",),
    ),
    "destination/database/sql_server.py::refused": (
        1,
        ("test_databases.py::test_what_stops_a_table_is_ended_as_its_hint_says",),
    ),
    "destination/database/table.py::DatabaseTable.open": (
        1,
        ("test_databases.py::test_what_stops_a_table_is_ended_as_its_hint_says",),
    ),
    "destination/database/table_checks.py::require_key": (1, INPUT),
    "destination/database/table_checks.py::require_place": (1, INPUT),
    "destination/database/table_definitions.py::TableDefinitions._swapped": (
        1,
        ("test_database_weather.py::test_a_copy_that_somebody_drops_is_not_complete",),
    ),
    "destination/database/table_definitions.py::TableDefinitions.alter": (
        1,
        ("test_databases.py::test_what_stops_a_table_is_ended_as_its_hint_says",),
    ),
    "destination/database/table_definitions.py::TableDefinitions.create_schema": (
        1,
        ("test_databases.py::test_what_stops_a_table_is_ended_as_its_hint_says",),
    ),
    "destination/database/table_definitions.py::TableDefinitions.united": (
        1,
        ("test_databases.py::test_a_unique_index_stops_a_table_until_it_is_dropped",),
    ),
    "destination/database/table_reader.py::DatabaseReader._version": (1, WAIT),
    "destination/database/table_reader.py::DatabaseReader.mirror": (1, INPUT),
    "destination/database/table_records.py::TableRecords.read": (1, OUTSIDE),
    "destination/database/table_version.py::DatabaseVersion.scan": (1, OUTSIDE),
    "destination/writer/table.py::WriterTable.check": (1, INPUT),
    "destination/writer/table.py::WriterTable.open": (2, OUTSIDE),
    "destination/writer/written_epochs.py::ProgressFile.read": (1, OUTSIDE),
    "destination/kafka/registered_messages.py::RegisteredMessages._avro_names": (1, INPUT),
    "destination/kafka/registered_messages.py::RegisteredMessages.keys": (1, INPUT),
    "destination/kafka/registered_messages.py::envelope_deletion": (1, INPUT),
    "destination/kafka/schema_registry.py::SchemaRegistry.schema_of": (1, INPUT),
    "destination/kafka/schema_registry.py::SchemaRegistry._request": (
        1,
        ("test_kafka_schemas.py::test_a_schema_that_is_refused_stops_its_table_and_is_ended_as_the_hint_says",),
    ),
    "capture/binlog/one_phase_commits.py::require_two_phases": (
        1,
        ("test_one_phase_commits.py::test_a_copy_under_one_phase_commits_lacks_no_row",),
    ),
    "destination/kafka/broker_trial.py::": (3, OUTSIDE),
    "destination/kafka/client.py::_final": (
        3,
        (
            "test_kafka.py::test_a_topic_that_is_gone_is_begun_again_as_the_hint_says",
            "test_kafka.py::test_a_row_that_is_too_large_stops_its_table_alone",
        ),
    ),
    "destination/kafka/table.py::KafkaTable.open": (
        1,
        ("test_kafka.py::test_a_topic_that_is_gone_is_begun_again_as_the_hint_says",),
    ),
    "destination/kafka/table_messages.py::TableMessages._check_size": (
        1,
        ("test_kafka.py::test_a_row_that_is_too_large_stops_its_table_alone",),
    ),
    "destination/kafka/table_topic.py::TableTopic._begin": (
        1,
        ("test_kafka.py::test_a_topic_that_is_gone_is_begun_again_as_the_hint_says",),
    ),
    "destination/kafka/table_topic.py::TableTopic._require_alone": (1, INPUT),
    "destination/kafka/table_topic.py::TableTopic.require_own": (1, INPUT),
    "destination/kafka/table_topic.py::TableTopic.require_same": (
        1,
        ("test_kafka.py::test_a_topic_that_is_gone_is_begun_again_as_the_hint_says",),
    ),
}
