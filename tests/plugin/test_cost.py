"""What is not used costs nothing."""

import subprocess
import sys
import time

HEAVY = {"pydantic", "yaml", "httpx", "anyio", "h11", "click", "respx", "faker"}
OURS = {"sendtwice", "sendtwice.harness", "sendtwice.harness.plugin"}


def loaded(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_sendtwice_loads_nothing_else() -> None:
    new = loaded("import sys; had = set(sys.modules); import sendtwice; print(*(set(sys.modules) - had))")

    assert {name for name in new if name.startswith("sendtwice")} == {"sendtwice"}
    assert not new & {*HEAVY, "asyncio"}


def test_importing_sendtwice_takes_a_few_milliseconds() -> None:
    import_time = "import time; t = time.process_time(); import sendtwice; print(time.process_time() - t)"
    best = min(
        float(subprocess.run([sys.executable, "-c", import_time], capture_output=True, check=True).stdout)
        for _ in range(5)
    )

    assert best < 0.02


def test_the_plugin_loads_nothing_until_a_test_asks_for_it() -> None:
    code = (
        "import sys, pytest; had = set(sys.modules); import sendtwice.harness.plugin; print(*(set(sys.modules) - had))"
    )
    new = loaded(code)

    assert {name for name in new if name.startswith("sendtwice")} == OURS
    assert not {name.partition(".")[0] for name in new} & HEAVY


def test_the_public_names_are_what_they_say() -> None:
    import sendtwice  # noqa: PLC0415

    started = time.monotonic()
    assert set(sendtwice.__all__) == {"Operation", "SendApi", "SendtwiceError", "__version__", "mails"}
    assert dir(sendtwice) == sorted(sendtwice.__all__)
    for name in sendtwice.__all__:
        assert getattr(sendtwice, name) is not None
    assert time.monotonic() - started < 5
