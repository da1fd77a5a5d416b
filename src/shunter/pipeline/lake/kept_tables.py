"""Tables of one cluster in a lake, as the service reads them without Spark: by delta-rs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shunter.errors import FormatError

if TYPE_CHECKING:
    from deltalake import DeltaTable


class KeptTable:
    """One cluster's rows of a table, at the version that was the newest when it was opened."""

    def __init__(self, root: Path, name: str, cluster_id: str) -> None:
        """Open the table.

        Raises:
            FormatError: it can't be read.
        """
        import pyarrow as pa  # noqa: PLC0415
        from deltalake import DeltaTable  # noqa: PLC0415 - a fifth of a second, and only a service with a lake needs it
        from deltalake.exceptions import DeltaError, TableNotFoundError  # noqa: PLC0415

        self.place = str(root / name)
        self._cluster_id = cluster_id
        self._table: DeltaTable | None = None
        try:
            self._table = DeltaTable(self.place)
        except TableNotFoundError:
            pass
        except (DeltaError, OSError, ValueError) as error:
            raise self._unreadable(error) from error
        self.files: tuple[tuple[str, int, int], ...] = ()
        """Names, sizes, and times (ms since 1970) of the cluster's files: the stamp by which a change is seen."""
        if self._table is not None:
            found: list[dict[str, Any]] = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
            self.files = tuple(
                sorted((one["path"], one["size_bytes"], _ms(one["modification_time"])) for one in found if one.get("partition.cluster_id") == cluster_id)
            )  # fmt: skip

    def told(self) -> dict[str, tuple[str, str]]:
        """Units and meanings of the columns, which Delta keeps beside the data."""
        fields = () if self._table is None else self._table.schema().fields
        return {
            one.name: (one.metadata.get("unit", ""), one.metadata["comment"])
            for one in fields
            if "comment" in one.metadata
        }

    def rows(self, columns: Sequence[str] | None = None, most: int | None = None) -> Any:
        """The rows as an Arrow table; a table without columns if there are none.

        Raises:
            FormatError: a column is missing, they can't be read, or they are more than `most`.
        """
        import pyarrow as pa  # noqa: PLC0415
        from pyarrow import compute  # noqa: PLC0415

        if self._table is None:
            return pa.table({})
        try:
            found = self._table.to_pyarrow_dataset()
            lacking = [name for name in columns or () if name not in found.schema.names]
            if lacking:
                raise FormatError(self.place, f"has no column {lacking[0]}: make it anew with this version")
            mine = compute.field("cluster_id") == self._cluster_id  # Each cluster has files of its own.
            if most is not None and (rows := found.count_rows(filter=mine)) > most:
                told = f"has {rows:,} rows, and {most:,} are shown at the most: read it with Spark"
                raise FormatError(self.place, told)
            return found.to_table(columns=None if columns is None else list(columns), filter=mine)
        except (OSError, pa.ArrowException) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> FormatError:
        return FormatError(self.place, f"can't be read: {str(error).splitlines()[0]}")


def in_utc(moment: datetime) -> datetime:
    """A time of a table with its zone. Spark writes times without a zone, and means UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _ms(moment: Any) -> int:
    return moment if isinstance(moment, int) else round(in_utc(moment).timestamp() * 1000)
