"""Builds the wheel (a PEP 517 back end): maturin's, with the `sector` program beside the module.

maturin puts into a wheel what lies in its folder of data; the program is built and laid there first. Whoever has built it
already names it by `SECTOR_BINARY`. It never writes outside `target`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import maturin

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "target" / "wheel-data" / "scripts"

get_requires_for_build_sdist = maturin.get_requires_for_build_sdist
get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_editable = maturin.get_requires_for_build_editable
build_sdist = maturin.build_sdist


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """A wheel with the program."""
    lay_program()
    return str(maturin.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """A wheel that points to the sources, with the program."""
    lay_program()
    return str(maturin.build_editable(wheel_directory, config_settings, metadata_directory))


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Any = None) -> str:
    """What the wheel says of itself."""
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    return str(maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings))


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel


def lay_program() -> None:
    """Lays the program, without what only debuggers want, where maturin takes it from."""
    SCRIPTS.mkdir(parents=True, exist_ok=True)
    laid = SCRIPTS / "sector"
    laid.unlink(missing_ok=True)
    shutil.copy2(os.environ.get("SECTOR_BINARY") or build_program(), laid)
    if shutil.which("strip"):
        subprocess.run(["strip", laid], check=True)


def build_program() -> Path:
    """Builds the program and says where it is."""
    command = [
        "cargo",
        "build",
        "--release",
        "--locked",
        "--package",
        "sector",
        "--message-format=json-render-diagnostics",
    ]
    built = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == "sector":
            return Path(message["executable"])
    raise RuntimeError("cargo built no `sector`; look at what it said")
