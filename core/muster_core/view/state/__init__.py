"""What the view knows, and how it is kept up to date by what owners report.

Nothing is decided here.
"""
