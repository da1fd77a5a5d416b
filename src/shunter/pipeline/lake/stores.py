"""Folders of small files in which each file is created once, even if several processes try at the same time.

The lake's log and its locks are such folders.

| file system | a new file is | made once by |
| --- | --- | --- |
| this machine's | written aside, then linked | the hard link, which fails where the name is taken |
| HDFS and others with folders | written aside, then renamed | the rename, which fails where the name is taken |
| object stores (s3a, gs, oss) | written in place | the store's own condition: Hadoop's s3a has one from 3.4.2 on |
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlparse
from uuid import uuid4

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from shunter.errors import DriverError

_OBJECT_STORES = {"s3", "s3a", "s3n", "gs", "oss", "cosn"}


class Store(Protocol):
    """A folder of small files."""

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder below ("" is this folder); none if there is no such folder."""
        ...

    def read(self, name: str) -> bytes | None:
        """A file's content; None if there is no such file."""
        ...

    def create(self, name: str, content: bytes) -> bool:
        """Create a whole file, only if no file has this name; returns whether it was created."""
        ...

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        ...


class LocalStore:
    """A folder of this machine. Only one of several processes can make a hard link, and the link names a whole file."""

    def __init__(self, folder: Path) -> None:
        """Take a folder, which need not exist."""
        self._folder = folder

    def names(self, folder: str) -> list[str]:
        """As `Store`."""
        try:
            with os.scandir(self._folder / folder) as found:
                return [entry.name for entry in found if not entry.name.startswith(".") and entry.is_file()]
        except FileNotFoundError:
            return []

    def read(self, name: str) -> bytes | None:
        """As `Store`."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, name: str, content: bytes) -> bool:
        """As `Store`; the file is on the disk before it has its name."""
        final = self._folder / name
        final.parent.mkdir(parents=True, exist_ok=True)
        draft = final.with_name(f".{final.name}.{uuid4().hex}")
        try:
            with draft.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.link(draft, final)
        except FileExistsError:
            return False
        except OSError as error:
            rule = f"{error.strerror}: the lake's log needs hard links, or a URL of a file system that Spark has"
            raise DriverError(f"{final}: {rule}", retriable=False) from error
        finally:
            draft.unlink(missing_ok=True)
        return True

    def delete(self, name: str) -> None:
        """As `Store`."""
        (self._folder / name).unlink(missing_ok=True)


class HadoopStore:
    """A folder of any file system that Spark has."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """Take a folder, which need not exist."""
        jvm, context = spark.sparkContext._jvm, spark.sparkContext._jsc  # noqa: SLF001  nothing public opens a file
        assert jvm is not None, "a session has its JVM"
        self._hadoop: Any = jvm.org.apache.hadoop
        self._io: Any = jvm.org.apache.commons.io.IOUtils
        self._folder = folder
        self._files: Any = self._path("").getFileSystem(context.hadoopConfiguration())
        self._in_place = urlparse(folder).scheme in _OBJECT_STORES

    def _path(self, name: str) -> Any:
        return self._hadoop.fs.Path(f"{self._folder}/{name}" if name else self._folder)

    def names(self, folder: str) -> list[str]:
        """As `Store`."""
        path = self._path(folder)
        if not self._files.exists(path):
            return []
        found = [entry for entry in self._files.listStatus(path) if entry.isFile()]
        return [name for name in (entry.getPath().getName() for entry in found) if not name.startswith(".")]

    def read(self, name: str) -> bytes | None:
        """As `Store`."""
        try:
            stream = self._files.open(self._path(name))
        except Py4JJavaError as error:
            if "FileNotFoundException" in str(error.java_exception.getClass().getName()):
                return None
            raise
        try:
            return bytes(self._io.toByteArray(stream))
        finally:
            stream.close()

    def create(self, name: str, content: bytes) -> bool:
        """As `Store`."""
        final = self._path(name)
        if self._files.exists(final):
            return False
        if self._in_place:
            return self._write(final, content)
        draft = self._path(f"{name.rpartition('/')[0]}/.{uuid4().hex}".lstrip("/"))
        self._write(draft, content)
        try:
            return bool(self._files.rename(draft, final))
        finally:
            self._files.delete(draft, False)

    def _write(self, path: Any, content: bytes) -> bool:
        try:
            stream = self._files.create(path, False)
            stream.write(bytearray(content))
            stream.close()
        except Py4JJavaError as error:
            name = str(error.java_exception.getClass().getName())
            if "FileAlreadyExistsException" in name or "RemoteFileChangedException" in name:
                return False
            raise
        return True

    def delete(self, name: str) -> None:
        """As `Store`."""
        self._files.delete(self._path(name), True)


def local_path(spark: SparkSession, url: str) -> Path | None:
    """The local folder that a URL names; None for another file system. Without a scheme, Spark's default counts."""
    parsed = urlparse(url)
    if parsed.scheme == "file":
        return Path(unquote(parsed.path))
    default = str(spark.sparkContext._jsc.hadoopConfiguration().get("fs.defaultFS", "file:///"))  # noqa: SLF001
    return Path(url) if not parsed.scheme and default.startswith("file:") else None


def open_store(spark: SparkSession, url: str) -> Store:
    """The store that fits a folder's file system."""
    local = local_path(spark, url)
    return LocalStore(local) if local is not None else HadoopStore(spark, url)
