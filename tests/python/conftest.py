"""What the tests share: one cloud of three nodes, started by `sector.up`, and a folder of its own for each test."""

import re
from collections.abc import Iterator

import pytest

import sector


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sector.LocalCloud]:
    with sector.up(nodes=3, data=tmp_path_factory.mktemp("cloud")) as cloud:
        yield cloud


@pytest.fixture
def folder(cloud: sector.LocalCloud, request: pytest.FixtureRequest) -> str:
    """A folder in the cloud that only this test uses."""
    path = "/" + re.sub(r"\W+", "-", request.node.nodeid)
    cloud.mkdir(path)
    return path
