"""Certificates for a proxy: a given one, or one that is made when it starts, and what is trusted of the upstream."""

from __future__ import annotations

import ipaddress
import shutil
import ssl
import subprocess
import tempfile
from pathlib import Path

from sendtwice.fake_provider.documents import BadFileError
from sendtwice.harness.drivers.wire import tls_context

_CONFIG = """\
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = sendtwice proxy
[extensions]
subjectAltName = {names}
basicConstraints = critical, CA:TRUE
keyUsage = critical, digitalSignature, keyCertSign
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
"""


class SelfSigned:
    """A certificate for this machine's own names, in a folder that is removed at the end. It is its own authority."""

    def __init__(self, host: str) -> None:
        """Make it, for ``host`` too."""
        openssl = shutil.which("openssl")
        if openssl is None:
            raise BadFileError("--tls", "openssl is not here to make a certificate; give --tls-cert and --tls-key")
        self._folder = Path(tempfile.mkdtemp(prefix="sendtwice-tls-"))
        self.certificate, self.key = self._folder / "ca.pem", self._folder / "key.pem"
        config = self._folder / "openssl.cnf"
        config.write_text(_CONFIG.format(names=", ".join(_names(host))), encoding="utf-8")
        command = [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        command += ["-days", "30", "-config", str(config), "-keyout", str(self.key), "-out", str(self.certificate)]
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode != 0:
            self.remove()
            why = (made.stderr.strip().splitlines() or ["it did not say why"])[-1]
            raise BadFileError("--tls", f"openssl made no certificate ({why}); give --tls-cert and --tls-key")

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _names(host: str) -> list[str]:
    names = ["DNS:localhost", "IP:127.0.0.1", "IP:::1"]
    try:
        own = f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        own = f"DNS:{host}"
    return names if own in names else [*names, own]


def served(certificate: Path, key: Path | None) -> ssl.SSLContext:
    """Return the context of the listening side; without ``key`` the certificate's file holds both."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    for file, option in ((certificate, "--tls-cert"), (key, "--tls-key")):
        if file is not None and not file.is_file():
            raise BadFileError(option, f"{file} is no file; give a certificate and its key, in PEM")
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        where = f"{certificate} and {key}" if key is not None else f"{certificate} (there is no --tls-key)"
        reason = getattr(error, "reason", None) or str(error)
        message = f"{where} cannot be used ({reason}); give a certificate and its key, in PEM, without a password"
        raise BadFileError("--tls-cert", message) from None
    return context


def _no_password() -> bytes:
    """Keep the program from asking for one."""
    raise ValueError("it has a password")


def trusted(ca: Path | None, *, insecure: bool) -> ssl.SSLContext:
    """Return the context for the upstream: what this machine trusts, ``ca`` alone, or anything."""
    if ca is not None and not ca.is_file():
        raise BadFileError("--ca", f"{ca} is no file; give the authority's certificate, in PEM")
    try:
        context = tls_context(verify=str(ca) if ca is not None else not insecure)
    except ssl.SSLError as error:
        raise BadFileError("--ca", f"{ca} holds no certificate ({error.reason}); give one in PEM") from None
    context.set_alpn_protocols(["http/1.1"])
    return context
