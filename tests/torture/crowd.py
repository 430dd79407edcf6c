"""Several writers at once, on a server that is going to die under their hands."""

import contextlib
import random
import socket
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.end_to_end.server_process import MountedClient
from tests.torture.writer import Writer

Connect = Callable[[], MountedClient]


@dataclass(slots=True)
class Crowd:
    """`connect` gives a new connection to the server, as it runs now."""

    connect: Connect
    writers: list[Writer] = field(default_factory=list)

    def add_writers(self, count: int, chance: random.Random) -> None:
        with self.connect() as client:
            shared = client.mkdir(client.root, b"shared").obj
            for number in range(count):
                generator = random.Random(chance.random())
                self.writers.append(Writer.new(f"writer{number}", generator, client, shared))

    def work_until(self, kill: Callable[[], None]) -> None:
        """All of them work until `kill` has ended the server, and their connections with it."""
        clients = [self.connect() for _ in self.writers]
        failures: list[BaseException] = []

        def work(writer: Writer, client: MountedClient) -> None:
            try:
                writer.work(client)
            except BaseException as error:  # told by the main thread
                failures.append(error)

        threads = [threading.Thread(target=work, args=pair) for pair in zip(self.writers, clients, strict=True)]
        for thread in threads:
            thread.start()
        try:
            kill()
        finally:
            for client in clients:
                # A machine without power closes nothing: whoever waits for it is told here.
                with contextlib.suppress(OSError):
                    client.transport.socket.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
            for client in clients:
                client.transport.close()
        if failures:
            raise failures[0]

    def recover(self) -> None:
        for writer in self.writers:
            with self.connect() as client:
                writer.recover(client)

    def compare(self) -> None:
        for writer in self.writers:
            with self.connect() as client:
                writer.compare(client)

    def tell(self) -> None:
        """Print what each of them did last, for whoever looks into a failure."""
        for writer in self.writers:
            print(f"--- {writer.name}", *writer.history, sep="\n")

    def report(self) -> str:
        acknowledged = sum((writer.acknowledged for writer in self.writers), Counter())
        ambiguous = sum((writer.ambiguous for writer in self.writers), Counter())
        return (
            f"{acknowledged.total()} calls acknowledged {dict(acknowledged)};"
            f" unanswered {dict(sorted(ambiguous.items()))}"
        )
