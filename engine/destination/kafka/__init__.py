"""The change logs of tables as messages in Kafka. Everything that a reader with `read_committed` sees is there once.

destination           the destination; `table`: one captured table of it, with `table_topic` and `table_messages`;
                      `shared_topics`: what tables share
epoch_transaction     the messages of an epoch, of all tables, in one transaction; `repeating_producer`: without one
snapshot_messages     the rows of chunks, in transactions of bounded size
state_topic           which epochs the topics have, and which runner may write (`kafka_terms`): a compacted topic.
                      `sent_records` has what it says of tables
topics                creates, finds and deletes topics
client                clients of librdkafka, and what their errors mean; `broker_trial`: whether brokers can be used
json_values           Arrow columns as JSON texts
row_events            images in pairs: what happened to each row
vanished_keys         what a new copy no longer has, read back from the topic
message_formats       events as messages: Debezium's, Canal's and Maxwell's JSON, changelog-json, plain rows
registered_messages   those whose schemas are in a registry (`schema_registry`): Avro, by `avro_values`, and JSON

An epoch is one transaction, and so is its number in the state topic: it is there with the messages, or not at all. The
two producers of a pipeline have transactional identifiers of their own. A later runner's `init_transactions` ends what
an earlier one has open, and fences it.
"""
