"""Async tests: asyncio by pytest-asyncio and anyio, and trio; each performs in the test's own loop."""

import pytest

from tests.plugin.inner import run

TEST = """
import mailer, pytest, sniffio

{mark}
@pytest.mark.sendtwice(contract="resend", scenarios=["client.response-lost", "client.two-workers"])
async def test_receipt(sendtwice):
    loop = {loop}

    @sendtwice.operate
    async def _(op):
        assert {loop} is loop
        await mailer.send_async(sendtwice.url, mailer.request(op.to, op.subject, op.text, op.sender), {key})
"""
ASYNCIO = "__import__('asyncio').get_running_loop()"
TRIO = "__import__('trio').lowlevel.current_root_task()"
WAYS = [
    pytest.param("@pytest.mark.asyncio", "", ASYNCIO, id="pytest-asyncio"),
    pytest.param('@pytest.mark.parametrize("anyio_backend", ["asyncio"])', "@pytest.mark.anyio", ASYNCIO, id="anyio"),
    pytest.param('@pytest.mark.parametrize("anyio_backend", ["trio"])', "@pytest.mark.anyio", TRIO, id="trio"),
]


@pytest.mark.parametrize(("mark", "more", "loop"), WAYS)
def test_a_sound_caller_passes(pytester: pytest.Pytester, mark: str, more: str, loop: str) -> None:
    run(pytester, TEST.format(mark=f"{mark}\n{more}", loop=loop, key="op.id")).assert_outcomes(passed=2)


@pytest.mark.parametrize(("mark", "more", "loop"), WAYS)
def test_a_flawed_caller_is_caught(pytester: pytest.Pytester, mark: str, more: str, loop: str) -> None:
    result = run(pytester, TEST.format(mark=f"{mark}\n{more}", loop=loop, key="mailer.fresh_key"))

    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["client.response-lost: *2 mails*"])
    assert "Traceback" not in "\n".join(result.outlines)


def test_a_sync_test_performs_an_async_callable_in_one_loop(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import asyncio, mailer, pytest

        @pytest.mark.sendtwice(contract="resend", scenarios=["client.response-lost", "client.two-workers"])
        def test_receipt(sendtwice):
            loops = set()

            @sendtwice.operate
            async def _(op):
                loops.add(asyncio.get_running_loop())
                assert len(loops) == 1
                await mailer.send_async(sendtwice.url, mailer.request(op.to, op.subject, op.text, op.sender), op.id)
        """,
    ).assert_outcomes(passed=2)


def test_an_async_test_performs_a_sync_callable_beside_its_loop(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import asyncio, mailer, pytest

        @pytest.mark.asyncio
        @pytest.mark.sendtwice(contract="resend", scenarios=["client.response-lost", "client.two-workers"])
        async def test_receipt(sendtwice):
            @sendtwice.operate
            def _(op):
                with pytest.raises(RuntimeError):
                    asyncio.get_running_loop()
                mailer.send(sendtwice.url, mailer.request(op.to, op.subject, op.text, op.sender), op.id)
        """,
    ).assert_outcomes(passed=2)


def test_a_lambda_that_returns_a_coroutine_is_awaited(pytester: pytest.Pytester) -> None:
    run(
        pytester,
        """
        import mailer, pytest

        def send(op, url):
            return mailer.send_async(url, mailer.request(op.to, op.subject, op.text, op.sender), op.id)

        @pytest.mark.sendtwice(contract="resend", scenarios="client.response-lost")
        def test_sync(sendtwice):
            sendtwice.operate(lambda op: send(op, sendtwice.url))

        @pytest.mark.asyncio
        @pytest.mark.sendtwice(contract="resend", scenarios="client.response-lost")
        async def test_async(sendtwice):
            sendtwice.operate(lambda op: send(op, sendtwice.url))
        """,
    ).assert_outcomes(passed=2)


@pytest.mark.parametrize(("mark", "more", "loop"), WAYS)
def test_a_send_api_in_an_async_test(pytester: pytest.Pytester, mark: str, more: str, loop: str) -> None:
    run(
        pytester,
        f"""
        import anyio, mailer, pytest

        {mark}
        {more}
        @pytest.mark.sendtwice(contract="resend")
        async def test_it(send_api):
            assert {loop}
            held = send_api.hold("client.response", attempt=1)
            async with anyio.create_task_group() as group:
                group.start_soon(mailer.send_async, send_api.url, mailer.request("a@x.test"), "k")
                await held.reached_async()
                assert send_api.deliveries == 1
                held.release()
                assert await send_api.wait_async(deliveries=1) == 1
        """,
    ).assert_outcomes(passed=1)


def test_an_async_test_that_registers_nothing_is_told_so(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest
        @pytest.mark.asyncio
        @pytest.mark.sendtwice(contract="resend", scenarios="client.response-lost")
        async def test_receipt(sendtwice):
            pass
        """,
    )

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["test_receipt*registered nothing that sends*"])
