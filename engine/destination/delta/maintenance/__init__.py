"""Files are compacted and vacuumed.

steps                  the steps of one captured table, and the sizes of its files
optimize               which files of a mirror to rewrite; `compaction`: which of a change log to merge or to delete
vacuum                 deletes files that no version within `sink.files_retention` names
"""
