"""YuniKorn's end points, ``/ws/v1``, for its web UI and its clients."""
