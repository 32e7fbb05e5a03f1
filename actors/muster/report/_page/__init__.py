"""The page of a report: from what was recorded to HTML and SVG.

It records nothing and knows no scheduler.
"""
