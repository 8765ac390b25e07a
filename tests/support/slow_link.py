"""A link that delays what a client sends, as the way to a distant store does: `python -m tests.support.slow_link`.

A process of its own, because the time that it needs must not be its client's. Unlike `store_faults`, it knows nothing
of HTTP, and hardly slows down many connections at once.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_PIECE_BYTES = 1 << 16
_AHEAD_S = 0.05


@contextmanager
def slow_link(port: int, delay_ms: float, mb_per_s: float = 0.0) -> Iterator[int]:
    """A link to a local port. Yields its own port. Each answer comes `delay_ms` later than without it.

    mb_per_s: what all clients together can send, in millions of bytes; 0: as much as they want.
    """
    command = [sys.executable, "-m", "tests.support.slow_link", str(port), str(delay_ms), str(mb_per_s)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


class _Rate:
    """What a link can take. bytes_per_s: 0 for all."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_s = 0.0

    def sent_s(self, now_s: float, size: int) -> float:
        """When a piece that arrives now has been sent, behind those before it."""
        if self._bytes_per_s:
            self._free_s = max(self._free_s, now_s) + size / self._bytes_per_s
            return self._free_s
        return now_s


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, delay_s: float, rate: _Rate) -> None:
    """Pass on what arrives, in order, each piece `delay_s` after it has been sent."""
    pieces = asyncio.Queue[tuple[float, bytes]]()
    loop = asyncio.get_running_loop()

    async def send() -> None:
        while True:
            at_s, piece = await pieces.get()
            await asyncio.sleep(max(at_s - loop.time(), 0.0))
            if not piece:
                target.close()
                return
            target.write(piece)
            await target.drain()

    sender = asyncio.create_task(send())
    with suppress(OSError):
        while piece := await source.read(_PIECE_BYTES):
            sent_s = rate.sent_s(loop.time(), len(piece))
            pieces.put_nowait((sent_s + delay_s, piece))
            await asyncio.sleep(max(sent_s - loop.time() - _AHEAD_S, 0.0))  # a client may not be far ahead
    pieces.put_nowait((loop.time() + delay_s, b""))
    with suppress(OSError):
        await sender


async def _serve(port: int, delay_s: float, rate: _Rate) -> None:
    unlimited = _Rate(0.0)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pass_on(reader, requests, delay_s, rate), _pass_on(answers, writer, 0.0, unlimited))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2]) / 1000, _Rate(float(sys.argv[3]) * 1e6)))
