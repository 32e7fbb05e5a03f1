"""Drawing programs at random: configurations, steps, and whole programs.

It runs nothing.
"""
