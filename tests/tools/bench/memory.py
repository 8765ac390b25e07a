"""Peak memory of a runner and of its readers, sampled while they work."""

import threading

import psutil

INTERVAL_S = 0.1


class Memory:
    """Samples the resident memory of a process (the runner) and of the Python processes below it (the readers)."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self.runner = self.reader = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End sampling."""
        self._closing.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._closing.wait(INTERVAL_S):
            try:
                self.runner = max(self.runner, self._root.memory_info().rss)
                for child in self._root.children(recursive=True):
                    if "python" in child.name():
                        self.reader = max(self.reader, child.memory_info().rss)
            except psutil.Error:
                continue
