"""The parts of *History*. The page itself is `app/screens/history.py`; `engine.history` has its rows.

view/past             runs as rows of the history
view/compare          runs side by side
"""
