"""A statement says the same for every key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sendtwice.harness.edges.sql import LOOKED_AT, statement


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT id\n  FROM operations\tWHERE key = $1", "SELECT id FROM operations WHERE key = $1"),
        ("INSERT INTO a VALUES ('it''s', E'a\\'b', 17, -1.5e3, 0xFF)", "INSERT INTO a VALUES (?, ?, ?, -?, ?)"),
        ("SELECT 'a\\' || b", "SELECT ? || b"),  # a backslash is only a character
        ("SELECT $$it's$$, $tag$a $$ b$tag$, $1, c", "SELECT ?, ?, $1, c"),
        ('SELECT "my 17 column" FROM t1', 'SELECT "my 17 column" FROM t1'),
        ("SELECT 1 -- trace 12345\n, 2 /* span='x' */ FROM a", "SELECT ? , ? FROM a"),
        ('SAVEPOINT "s140234567890_x1"', 'SAVEPOINT "s?_x1"'),
        ("ALTER ROLE app PASSWORD 'secret'", "ALTER ROLE app PASSWORD ?"),
        ("SELECT 'never ends", "SELECT ?"),
        ("SELECT a::int8, b->>'c' FROM t WHERE d IN (1, 2)", "SELECT a::int8, b->>? FROM t WHERE d IN (?, ?)"),
        ("SELECT name FROM größe", "SELECT name FROM größe"),
    ],
)
def test_values_and_comments_go(sql: str, text: str) -> None:
    assert statement(sql.encode()) == text


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("SELECT `a 1` FROM t WHERE b = \"x'y\" AND c = 'a\\'b'", "SELECT `a 1` FROM t WHERE b = ? AND c = ?"),
        ('INSERT INTO t VALUES (\'a"b\', "c")', "INSERT INTO t VALUES (?, ?)"),
    ],
)
def test_mysql_has_other_quotes(sql: str, text: str) -> None:
    assert statement(sql.encode(), "mysql") == text


def test_a_long_statement_shows_its_beginning_and_its_end() -> None:
    columns = ", ".join(f"operations.column_{letter}" for letter in "abcdefghijklmnop")
    text = statement(f"SELECT {columns} FROM operations WHERE operations.key = $1 FOR UPDATE".encode())
    assert len(text) <= 200
    assert text.startswith("SELECT operations.column_a")
    assert text.endswith("FROM operations WHERE operations.key = $1 FOR UPDATE")
    assert len(statement(b"SELECT a" + b", b" * LOOKED_AT)) <= 200


@given(st.text(alphabet=st.characters(blacklist_categories=["Cs"])))
def test_no_value_is_ever_shown(value: str) -> None:
    quoted = value.replace("'", "''")
    assert (
        statement(f"SELECT a FROM b WHERE c = '{quoted}' AND d".encode()[:LOOKED_AT])
        == "SELECT a FROM b WHERE c = ? AND d"
    )


@given(st.binary(max_size=200), st.sampled_from(["postgresql", "mysql"]))
def test_anything_can_be_read(sql: bytes, dialect: str) -> None:
    assert len(statement(sql, dialect)) <= 200
