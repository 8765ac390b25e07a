"""Converts a spec to an endpoint, and to the names of its server.

Separate from `connect`, so that readers do not import specs.
"""

from contextlib import closing

from engine.source.connect import Endpoint, describe, open_connection
from engine.spec.case_folding import spec_on
from engine.spec.globs import NameRule
from engine.spec.settings import Source, Spec, password


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
        password_file=str(source.password_file) if source.password_file and not source.password_env else None,
    )


def name_rule(source: Source) -> NameRule:
    """How the source compares names. Raises as `endpoint_of` and `open_connection`."""
    with closing(open_connection(endpoint_of(source))) as connection:
        return describe(connection).names


def at_source(spec: Spec) -> Spec:
    """The spec with globs that match the source's names. Raises as `name_rule` and `spec_on`."""
    return spec_on(spec, name_rule(spec.source))
