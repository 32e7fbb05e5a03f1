"""A second server, which follows the first and takes over from it."""
