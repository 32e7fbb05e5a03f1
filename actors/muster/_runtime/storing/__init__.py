"""The store of a running scheduler: batches are written before they are announced."""
