"""TLS: the certificate of the service."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Final, final

from muster_core.errors import MusterError

_PROTOCOL: Final = "http/1.1"


@final
class CertificateError(MusterError):
    """A certificate or its key cannot be used."""


# ACCESS-14
@final
class Certificate:
    """The certificate that the service shows; it can be read again.

    Args:
        cert: The file of the certificate, with those between it and the root.
        key: The file of its key.

    Attributes:
        context: The context for connections.

    Raises:
        CertificateError: If the files cannot be used.
    """

    def __init__(self, cert: Path, key: Path) -> None:
        self.cert = cert
        self.key = key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
        self.context.set_alpn_protocols([_PROTOCOL])
        self.read()

    def read(self) -> None:
        """Read the files; new connections get what is in them.

        Raises:
            CertificateError: If they cannot be used; then those before stay.
        """
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.cert, self.key, _no_word)
            self.context.load_cert_chain(self.cert, self.key, _no_word)
        except (OSError, ssl.SSLError, ValueError) as error:
            msg = f"TLS: {self.cert} with {self.key}: {error}"
            raise CertificateError(msg) from None


def _no_word() -> str:
    """Refuse a key with a password, which nobody could type in."""
    msg = "the key has a password, and must have none"
    raise ValueError(msg)
