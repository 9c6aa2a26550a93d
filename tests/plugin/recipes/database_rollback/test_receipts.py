import sqlite3
from contextlib import closing

import pytest
import shop


@pytest.fixture(scope="module")
def connection(tmp_path_factory):
    with closing(sqlite3.connect(tmp_path_factory.mktemp("db") / "shop.db", isolation_level=None)) as connection:
        connection.execute(shop.SCHEMA)
        yield connection


@pytest.fixture
def db(connection):
    """A transaction that is rolled back: operations run in the test's own thread, so it is theirs too."""
    connection.execute("BEGIN")
    yield connection
    connection.execute("ROLLBACK")
    assert connection.execute("SELECT count(*) FROM receipts").fetchone() == (0,)


@pytest.mark.sendtwice(
    contract="resend",
    scenarios=["client.response-lost", "client.conflict", "client.unknown-outcome", "client.asked-again"],
)
def test_receipts(sendtwice, db):
    @sendtwice.operate
    def _(op):
        return shop.send_receipt(db, op.id, op.to, op.subject, op.text)
