"""The statements of SQL by which batches and checkpoints are read and written."""
