"""The parts of *Pipelines*. The page itself is `app/screens/pipelines.py`.

fleet                 the list; `view/pipeline_cards`: its cards; `view/sparkline`
bulk                  start, pause or resume several at once; `view/bulk_acts`: what that would do.
                      `common.home.launch` starts a runner
"""
