import pytest
import tasks


@pytest.fixture(autouse=True)
def _eager():
    """Retries are made at once, too; task_eager_propagates would end a task at its first retry."""
    tasks.app.conf.task_always_eager = True
    yield
    tasks.app.conf.task_always_eager = False


@pytest.mark.sendtwice(
    contract="resend",
    scenarios=["client.response-lost", "client.unknown-outcome", "client.conflict", "client.asked-again"],
    told={tasks.UnknownOutcomeError: "unknown"},
)
def test_receipts(sendtwice):
    @sendtwice.operate
    def _(op):
        tasks.send_receipt.delay(op.id, op.to, op.subject, op.text).get()
