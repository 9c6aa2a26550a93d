import httpx
import pytest
from app import Mailer, app, mailer


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def client(sendtwice):
    """What the callable needs is a fixture: the test's own function is over when it is called."""
    async with httpx.AsyncClient(base_url=sendtwice.url, headers={"Authorization": "Bearer re_123"}) as api:
        app.dependency_overrides[mailer] = lambda: Mailer(api)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://shop") as client:
            yield client
        app.dependency_overrides.clear()


@pytest.mark.anyio
@pytest.mark.sendtwice(contract="resend", scenarios=["client.response-lost", "client.conflict", "client.two-workers"])
async def test_receipts(sendtwice, client):
    @sendtwice.operate
    async def _(op):
        order = {"id": op.id, "email": op.to, "subject": op.subject, "text": op.text}
        answer = await client.post("/orders/receipt", json=order)
        return {200: "sent", 422: "not_sent"}.get(answer.status_code, "unknown")
