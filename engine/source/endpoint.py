"""Converts a spec to an endpoint. Separate from `connect`, so that readers do not import specs."""

from engine.settings import Source, password
from engine.source.connect import Endpoint


def endpoint_of(source: Source) -> Endpoint:
    """The endpoint of a spec's source, with its password resolved. Raises SpecError if the password cannot be found."""
    return Endpoint(
        source.host,
        source.port,
        source.user,
        password(source),
        source.tls,
        str(source.tls_ca) if source.tls_ca else None,
        source.connect_timeout_s,
        silence_s=source.silence_s,
    )
