"""The page of a report: write the records as HTML and SVG.

It records nothing and does not know the scheduler.
"""
