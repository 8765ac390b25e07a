"""The parts of *Verify*. The page itself is `app/screens/verify.py`.

`common.data_light.tables_of` has the rows of its tables. What was found in a table, part by part, comes from
`engine.pipeline.verifications`, where `engine.verify.recorded` writes it; `view/part_map` shows the parts as tiles.
"""
