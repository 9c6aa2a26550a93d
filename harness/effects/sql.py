"""A count that a query gives. SQLite is read by the standard library, every other database through SQLAlchemy.

Nothing is written: a SQLite file is opened read-only, and any other transaction is rolled back.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sendtwice.harness import placeholders
from sendtwice.harness.effects.asked import ProbeError, escaped, parameters, shown, whole, without_password

if TYPE_CHECKING:
    from sendtwice.harness.target import Effects

_SQLITE = "sqlite:///"
_WHERE = "target.effects.database"


@dataclass(slots=True)
class SqlProbe:
    """Runs a query whose first value is the count."""

    settings: Effects
    folder: Path
    _engines: dict[str, Any] = field(default_factory=dict)

    @property
    def _sql(self) -> str:
        return self.settings.sql or ""

    @property
    def _database(self) -> str:
        return self.settings.database or ""

    @property
    def described(self) -> str:
        """The database, without a password."""
        return f"a query to {without_password(self._database)}"

    @property
    def names(self) -> frozenset[str]:
        """What of an operation the query asks by."""
        return parameters(self._sql)

    async def count(self, values: Mapping[str, str]) -> int:
        """Run the query beside the loop, for a database may let it wait."""
        database = placeholders.fill_text(self._database, {**values, "folder": str(self.folder)})
        given = {name: values.get(name, "") for name in self.names}
        ask: Callable[[], Any] = (
            (lambda: self._sqlite(database.removeprefix(_SQLITE), given))
            if database.startswith(_SQLITE)
            else (lambda: self._sqlalchemy(database, given))
        )
        try:
            async with asyncio.timeout(self.settings.timeout + 1):
                found = await asyncio.to_thread(ask)
        except TimeoutError:
            raise ProbeError(
                f"target.effects.sql: there was no answer within {self.settings.timeout:g} s; see what the query waits "
                "for, or raise target.effects.timeout"
            ) from None
        number = whole(found)
        if number is None or isinstance(found, list):
            raise ProbeError(
                f"target.effects.sql: the first value that it selects is {shown(found, 40)!r}, no whole number; "
                "write select count(*) ..."
            )
        return number

    # -- SQLite ------------------------------------------------------------------------------------------------------

    def _sqlite(self, path: str, given: Mapping[str, str]) -> Any:
        file = self.folder / path
        if not file.is_file():
            raise ProbeError(f"{_WHERE}: there is no {path}; a path starts at the target file's folder")
        address = f"file:{quote(str(file.absolute()))}?mode=ro"
        try:
            with contextlib.closing(sqlite3.connect(address, uri=True, timeout=self.settings.timeout)) as connection:
                row = connection.execute(self._sql, given).fetchone()
        except sqlite3.Error as error:
            raise ProbeError(_failed(path, error)) from None
        return row[0] if row else None

    # -- every other -------------------------------------------------------------------------------------------------

    def _sqlalchemy(self, database: str, given: Mapping[str, str]) -> Any:
        sqlalchemy = importlib.import_module("sqlalchemy")
        engine = self._engine(sqlalchemy, database)
        try:
            with engine.connect() as connection:
                if engine.dialect.name == "postgresql":
                    connection.execution_options(postgresql_readonly=True)
                row = connection.execute(sqlalchemy.text(escaped(self._sql)), given).fetchone()
                connection.rollback()
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise ProbeError(_failed(engine.dialect.name, getattr(error, "orig", None) or error)) from None
        return row[0] if row else None

    def _engine(self, sqlalchemy: Any, database: str) -> Any:
        if database in self._engines:
            return self._engines[database]
        try:
            # Without a pool: nothing is left open between two counts.
            engine = sqlalchemy.create_engine(database, poolclass=importlib.import_module("sqlalchemy.pool").NullPool)
        except ModuleNotFoundError as error:
            raise ProbeError(
                f"{_WHERE}: SQLAlchemy's driver {error.name!r} is not installed here; install it, or name another one "
                "(postgresql+psycopg://...)"
            ) from None
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise ProbeError(f"{_WHERE}: SQLAlchemy cannot read it ({shown(error)})") from None
        self._engines[database] = engine
        return engine


def _failed(where: str, error: object) -> str:
    """Return one line for what a database complained of: it is of the query, or of the way to the database."""
    words = shown(error)
    apart = ("unable to open", "connect", "authentication", "password", "not a database", "does not exist on")
    setting = _WHERE if any(part in words.lower() for part in apart) else "target.effects.sql"
    return f"{setting}: {where}: {words}; mend {'the address' if setting == _WHERE else 'the query'}"


def lacking(database: str) -> str | None:
    """Return what must be installed before a database can be read, in one line, or None."""
    if database.startswith(_SQLITE) or importlib.util.find_spec("sqlalchemy") is not None:
        return None
    kind = database.partition(":")[0]
    return (
        f"{_WHERE}: {kind} is read through SQLAlchemy, which is not installed here; install it with the database's "
        "driver, or count by target.effects.command"
    )
