"""A process that ends a server's group when the process that started the server is gone.

The kernel can signal the server itself when its parent dies, but not the engine processes below
it, and a stopped process would not act on the signal. The guard is a shell that waits for the
end of a pipe whose other end only the parent holds.
"""

from __future__ import annotations

import subprocess

#: A stopped process acts on SIGTERM only after SIGCONT.
_PROGRAM = 'read line; kill -TERM -"$0"; kill -CONT -"$0"; sleep 2; kill -KILL -"$0"'


def guard(group: int) -> subprocess.Popen[bytes]:
    """Start a guard of the process group ``group``; end it with ``dismiss``."""
    return subprocess.Popen(
        ["/bin/sh", "-c", _PROGRAM, str(group)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def dismiss(guarding: subprocess.Popen[bytes]) -> None:
    """End a guard whose group is gone."""
    guarding.kill()
    guarding.wait()
    if guarding.stdin is not None:
        guarding.stdin.close()
