"""A folder that keeps secrets: what it refuses, and what whoever reads it while it is written finds."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import FileStore, MemoryStore
from tests.support.wire import Background

NAME = "token of somebody"


def file_of(folder: Path) -> Path:
    (found,) = folder.glob("*.json")
    return found


def linked(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("store", [MemoryStore, lambda: FileStore("store")])
def test_keeps_and_forgets(store: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    kept = store()
    assert kept.get(NAME) is None
    kept.put(NAME, {"a": 1})
    kept.put(NAME, {"a": 2})
    assert kept.get(NAME) == {"a": 2} and kept.get("another") is None
    kept.put(NAME, None)
    kept.put(NAME, None)
    assert kept.get(NAME) is None


@pytest.mark.parametrize(
    "change",
    [lambda path: path.chmod(0o644), lambda path: path.chmod(0o620), linked, replaced_by_a_folder],
    ids=["readable by all", "writable by the group", "a link", "a folder"],
)
def test_refuses_a_file_that_others_could_have_read_or_written(change: Callable[[Path], None], tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    store.put(NAME, {"a": 1})
    assert stat.S_IMODE(file_of(tmp_path / "store").stat().st_mode) == 0o600
    change(file_of(tmp_path / "store"))
    with pytest.raises(OSError):
        store.get(NAME)


def test_whatever_the_umask_nobody_else_can_read_what_is_kept(tmp_path: Path) -> None:
    former = os.umask(0)
    try:
        store = FileStore(tmp_path / "store")
        store.put(NAME, {"a": 1})
        with store.lock(NAME, lambda seconds: None):
            pass
    finally:
        os.umask(former)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "store").iterdir()}
    assert modes == {0o600} and stat.S_IMODE((tmp_path / "store").stat().st_mode) == 0o700


def test_refuses_what_belongs_to_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(tmp_path / "store")
    store.put(NAME, {"a": 1})
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError, match="belong to this user alone"):
        store.get(NAME)
    with pytest.raises(PermissionError, match="belong to this user alone"):
        FileStore(tmp_path / "store")


def test_refuses_a_folder_that_others_can_read_and_one_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "store").symlink_to(tmp_path / "real")
    with pytest.raises(PermissionError, match="not a folder"):
        FileStore(tmp_path / "store")
    for mode in (0o755, 0o770):
        (tmp_path / "real").chmod(mode)
        with pytest.raises(PermissionError, match="0700"):
            FileStore(tmp_path / "real")


def test_what_cannot_be_read_counts_as_absent(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "store")
    store.put(NAME, {"a": 1})
    file = file_of(tmp_path / "store")
    for text in (b"", b'{"name": "token of som', b"\x00\xff", b"[]", b"[" * 100_000, b'{"name": "other", "value": {}}',
                 b'{"name": "token of somebody", "value": 7}'):  # fmt: skip
        file.write_bytes(text)
        assert store.get(NAME) is None, text[:40]
    os.truncate(file, 1 << 30)  # a hole, which takes no room on the disk
    assert store.get(NAME) is None, "a file of 1 GB is not read"
    store.put(NAME, {"a": 2})
    assert store.get(NAME) == {"a": 2}


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    store, victim = FileStore(tmp_path / "store"), tmp_path / "victim"
    victim.write_text("precious")
    store.put(NAME, {"a": 1})
    path = file_of(tmp_path / "store")
    path.unlink()
    path.symlink_to(victim)
    with pytest.raises(PermissionError, match="not a plain file"):
        store.put(NAME, {"a": 2})
    assert victim.read_text() == "precious" and path.is_symlink()


def test_a_reader_during_a_write_finds_the_old_value_or_the_new_one(tmp_path: Path) -> None:
    store, done = FileStore(tmp_path / "store"), threading.Event()
    values = [{"text": letter * 20_000} for letter in "ab"]
    store.put(NAME, values[0])
    reader = Background(lambda: [store.get(NAME) for _ in iter(done.is_set, True)])
    for number in range(50):
        store.put(NAME, values[number % 2])
    done.set()
    assert all(value in values for value in reader.outcome())


def test_a_crash_in_the_middle_of_a_write_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FileStore(tmp_path / "store")
    store.put(NAME, {"a": 1})

    def crash(descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(KeyboardInterrupt):
        store.put(NAME, {"a": 2})
    assert store.get(NAME) == {"a": 1}
    assert [path.suffix for path in (tmp_path / "store").iterdir()] == [".json"]
