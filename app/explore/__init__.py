"""The parts of *Explore*. The page itself is `app/screens/explore.py`; `engine.explore` answers its queries.

saved                 saved queries
view/queries          example queries, and the times that can be asked for
view/row_life         the life of one row
"""
