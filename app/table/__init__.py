"""The parts of *Table*. The page itself is `app/screens/table.py`; sections of *Live* are on it too (`app/live`).

table_sections        its sections
view/table_page       one table: state, freshness, copy, changes
view/table_events     its errors and schema changes, from the journal
"""
