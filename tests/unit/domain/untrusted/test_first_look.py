"""The first values of a class may be read by several threads at the same time."""

from __future__ import annotations

import subprocess
import sys

# In a process of its own: without a lock msgspec ends it with a fault of memory.
PROGRAM = '''
import sys, threading, types
from kshunt.backend.domain.untrusted.json_codec import from_document

sys.setswitchinterval(1e-6)
SOURCE = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass(frozen=True)
class Inner:
    a: dict[str, int] | None = None
    b: dict[str, int] | None = None
    c: dict[str, int] | None = None

@dataclass(frozen=True)
class Outer:
    one: Inner
    many: tuple[Inner, ...] = ()
"""
for number in range(50):
    module = types.ModuleType(f"module_{number}")
    sys.modules[module.__name__] = module
    exec(SOURCE, module.__dict__)
    together = threading.Barrier(4)

    def read(kind=module.Outer):
        together.wait()
        assert from_document(kind, {"one": {"a": {"x": 1}}, "many": [{}]}).one.a == {"x": 1}

    threads = [threading.Thread(target=read) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
print("read")
'''


def test_threads_may_read_the_first_values_of_a_class() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "read\n"), done.stderr[-2_000:]
