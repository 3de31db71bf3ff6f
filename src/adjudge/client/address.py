"""Where the service is, and with which token it is asked."""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from adjudge.client.errors import ConnectionFailed
from adjudge.errors import OptionError, shown

URL: Final = "http://127.0.0.1:8000"  # where `adjudge serve` listens
TOKEN: Final = "ADJUDGE_TOKEN"  # the variable of the environment
PORTS: Final = {"http": 80, "https": 443}
_TOKEN: Final = re.compile(r"[!-~]{1,1000}")


@dataclass(frozen=True)
class Address:
    """The address of a service, taken apart.

    >>> Address.of("https://votes.example.org/adjudge/")
    Address(secure=True, host='votes.example.org', port=443, prefix='/adjudge')
    >>> str(Address.of("http://[::1]:8000")), Address.of("http://[::1]:8000").authority
    ('http://[::1]:8000', '[::1]:8000')
    """

    secure: bool
    host: str
    port: int
    prefix: str  # before every path, as a proxy may ask for

    @classmethod
    def of(cls, url: str) -> Address:
        """Return the parts of an address, or raise an error that says what an address has to be.

        - `url`: http:// or https://, a host, and where it is needed a port and a path.
        """
        wrong = f"url is {shown(url)}: give an address such as {URL}"
        if not isinstance(url, str) or not url.isascii() or not url.isprintable() or " " in url:
            raise OptionError(wrong)
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise OptionError(wrong) from None
        if parts.scheme not in PORTS or not parts.hostname or parts.query or parts.fragment or "@" in parts.netloc:
            raise OptionError(wrong)
        return cls(parts.scheme == "https", parts.hostname, port or PORTS[parts.scheme], parts.path.rstrip("/"))

    @property
    def authority(self) -> str:
        """Host and port, as the header Host has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS["https" if self.secure else "http"] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.authority}{self.prefix}"

    def unreached(self, error: Exception) -> ConnectionFailed:
        """Return what to raise where no connection could be made."""
        if isinstance(error, ConnectionRefusedError):
            return ConnectionFailed(f"nothing answers at {self}: is the address right? `adjudge serve` starts a service")
        if isinstance(error, ssl.SSLCertVerificationError):
            return ConnectionFailed(f"the certificate of {self} is not trusted: {error.verify_message}", final=True)
        why = "no answer in time" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or error
        return ConnectionFailed(f"cannot reach {self}: {why}")

    def lost(self, error: Exception, *, kept: bool = False) -> ConnectionFailed:
        """Return what to raise where something was sent and no answer came."""
        if isinstance(error, TimeoutError):
            return ConnectionFailed(f"{self} did not answer in time", sent=True)
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return ConnectionFailed(f"the connection to {self} was lost: {why}", sent=True, kept=kept)


def token_of(given: str | None) -> str | None:
    """Return the token that is given, or that of the environment; None where there is none.

    What is wrong with one is said without showing it.
    """
    token = os.environ.get(TOKEN) or None if given is None else given
    if token is not None and (not isinstance(token, str) or not _TOKEN.fullmatch(token)):
        where = TOKEN if given is None else "token"
        raise OptionError(f"{where} is not a token: give one line of plain characters, as `adjudge token` prints it")
    return token
