"""Whether the servers of a destination can be used, for who makes a new pipeline."""

from engine.spec.sink_settings import Sink


def fault_of_servers(sink: Sink, answer_s: float) -> str:
    """Why they cannot be used; "" if they can, or there are none. answer_s: how long they have for an answer."""
    from engine.destination.registry import server_fault  # loads the destinations

    return server_fault(sink, answer_s)[0]
