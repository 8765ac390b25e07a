"""The new-pipeline wizard.

frame                  the row of steps, fields that are saved at once, and the foot; `drafts`: what is saved
connect, preflight     steps 1 and 2; `tables` (`table_tree`): 3; `plan` (`mirrors`): 4; `target`: 5 and 6; `launch`: 7,
                       which starts the runner by `common.home`
as_toml                the draft as a file; `view` has all that can be computed without Streamlit
"""
