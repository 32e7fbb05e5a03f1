"""A second server: real leaders and followers."""
