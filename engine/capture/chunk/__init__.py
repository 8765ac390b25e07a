"""Reads chunks: the watermarks, the SELECT, the backfill, and redumped parts.

chunk_reader          one chunk: the SELECT (`plan.chunks.predicate`: its range) and its slices, written by
                      `capture.files`; `keyless`: of a table without an identity
backfill              applies the changes between the watermarks to its rows
fast_forward          moves a finished chunk to a later position
redump_part           redumps a published part
"""
