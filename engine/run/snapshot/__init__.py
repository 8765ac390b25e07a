"""What a run does to copy tables.

scheduler         which chunks are read next, and by which job; `table_copy`: the state of one table that is copied
splitter          splits tables into chunks, ahead of the readers
gate, throttle    what keeps chunks from being read, and how fast they may be; `read_folder` tells running readers
standstill        why no chunk is read, although there are some to read
retries           failed reads: what was at fault, when to read again, and after how many tries not; `parking`: chunks
                  that wait for an operator then
refused_reads     tables that the account may not read
mutable_keys      chunks of tables whose key may change
"""
