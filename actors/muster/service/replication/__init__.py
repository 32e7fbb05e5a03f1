"""A second server: it follows the leader, decides the same again, and can take over."""
