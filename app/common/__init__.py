"""What the pages share.

home, selection, places   the pipelines, the chosen one, and addresses; `home.launch` starts a runner
access                    what a login may do (`view/roles`: which role it has)
controls                  buttons that act on a pipeline; `table_acts`: on a table
runner_notice, messages   what keeps a pipeline from working; errors in three parts; `data_light`: the fourth light
autorefresh, jobs         parts that refresh themselves, and work in the background
badge                     the number of alerts in the header
view/status_style         the colour of each state; `view` has all that can be computed without Streamlit
"""
