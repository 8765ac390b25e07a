"""From a spec to an endpoint. Apart from `connect`, so that readers need not know specs."""

from engine.settings import Source, password
from engine.source.connect import Endpoint


def endpoint_of(source: Source) -> Endpoint:
    """The endpoint of a spec's source, its password fetched by reference. Raises SpecError when that leads nowhere."""
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
