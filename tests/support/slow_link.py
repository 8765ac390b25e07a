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


@contextmanager
def slow_link(port: int, delay_ms: float) -> Iterator[int]:
    """A link to a local port. Yields its own port. Each answer comes `delay_ms` later than without it."""
    command = [sys.executable, "-m", "tests.support.slow_link", str(port), str(delay_ms)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter, delay_s: float) -> None:
    """Pass on what arrives, in order, each piece `delay_s` after its arrival."""
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
            pieces.put_nowait((loop.time() + delay_s, piece))
    pieces.put_nowait((loop.time() + delay_s, b""))
    with suppress(OSError):
        await sender


async def _serve(port: int, delay_s: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pass_on(reader, requests, delay_s), _pass_on(answers, writer, 0.0))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1]), float(sys.argv[2]) / 1000))
