"""Changes become the mirror.

newest_images         the newest image of each key in change files
mirror_files          which files of the mirror that concerns, and what replaces them; `key_index` finds the rows
rewritten_changes     change files that another tool has moved
"""
