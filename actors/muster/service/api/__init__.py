"""The end points below ``/api/v1``, and those about the service itself."""
