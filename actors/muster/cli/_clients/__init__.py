"""The commands that ask a server: ``muster get``, ``submit``, ``why``, and so on."""
