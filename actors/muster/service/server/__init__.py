"""The server: sockets, connections, and what every request passes first."""
