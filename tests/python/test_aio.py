"""The asyncio variant: the same calls, beside each other, and ended with their task."""

import asyncio
import os
from pathlib import Path

import pytest

import sector
import sector.aio

MIB = 1024 * 1024


def test_files_and_names_are_awaited(cloud: sector.LocalCloud, folder: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with await sector.aio.connect(cloud.profile) as there:
            async with there.open(f"{folder}/a", "wb") as file:
                await file.write(b"hello")
                await file.write(bytes(5 * MIB))
            assert file.entry.size_bytes == 5 + 5 * MIB
            reader = await there.open(f"{folder}/a")
            assert isinstance(reader, sector.aio.Reader)
            assert await reader.read(5) == b"hello"
            assert len(await reader.read()) == 5 * MIB and await reader.read() == b""
            reader.seek(-3, os.SEEK_END)
            assert (await reader.read(), reader.tell()) == (bytes(3), 5 + 5 * MIB)
            await there.rename(f"{folder}/a", f"{folder}/b")
            await there.copy(f"{folder}/b", f"{folder}/sub/c")
            await there.mkdir(f"{folder}/new/er", parents=True)
            assert [entry.name for entry in await there.ls(folder)] == ["b", "new", "sub"]
            assert [at async for at, _, _ in there.walk(folder)][1:] == [
                f"{folder}/new",
                f"{folder}/new/er",
                f"{folder}/sub",
            ]
            assert await there.glob(f"{folder}/*/c") == [f"{folder}/sub/c"]
            await there.get(f"{folder}/b", tmp_path / "b")
            await there.put(tmp_path / "b", f"{folder}/d")
            assert (await there.stat(f"{folder}/d")).digest == (await there.stat(f"{folder}/b")).digest
            await there.remove(f"{folder}/d")
            assert not await there.exists(f"{folder}/d")
            assert len(await there.nodes()) == 3

    asyncio.run(main())


def test_calls_run_beside_each_other_and_raise_pythons_errors(cloud: sector.LocalCloud, folder: str) -> None:
    async def main() -> None:
        there = await sector.aio.connect(cloud.profile)
        paths = [f"{folder}/{number}" for number in range(64)]
        await asyncio.gather(*(there.write_bytes(path, path.encode()) for path in paths))
        contents = await asyncio.gather(*(there.read_bytes(path) for path in paths))
        assert contents == [path.encode() for path in paths]
        with pytest.raises(FileNotFoundError):
            await there.stat(f"{folder}/none")
        with pytest.raises(FileExistsError):
            await there.open(paths[0], "xb")
        with pytest.raises(ZeroDivisionError):
            async with there.open(f"{folder}/never", "wb") as file:
                await file.write(bytes(2 * MIB))
                raise ZeroDivisionError
        assert not await there.exists(f"{folder}/never")
        await there.close()
        with pytest.raises(ValueError, match="closed"):
            await there.ls("/")

    asyncio.run(main())


# Promise 58.
def test_a_cancelled_call_ends_and_frees_its_place(cloud: sector.LocalCloud, folder: str) -> None:
    async def main() -> None:
        there = await sector.aio.connect(cloud.profile)
        reading, writing = os.pipe()
        putting = asyncio.ensure_future(there.put(f"/proc/self/fd/{reading}", f"{folder}/x"))
        # More than a pipe holds: once it is written, the upload is under way.
        await asyncio.to_thread(os.write, writing, bytes(4 * MIB))
        putting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await putting
        os.close(writing)
        os.close(reading)
        # The lease is given back by a task of its own.
        while True:
            try:
                await there.write_bytes(f"{folder}/x", b"free")
                break
            except sector.BusyError as error:
                assert "writ" in str(error)
        assert await there.read_bytes(f"{folder}/x") == b"free"
        await there.close()

    asyncio.run(main())
