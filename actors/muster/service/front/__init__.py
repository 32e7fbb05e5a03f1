"""The front of the service: sockets, connections, and what every request passes first."""
