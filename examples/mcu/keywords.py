"""A keyword-spotting network on a Cortex-M4: compiled to C, built for the board, run in QEMU.

    python keywords.py [FOLDER]

Needs torch, and qemu-system-arm to run the program. The network is DS-CNN of Y. Zhang et al.,
"Hello Edge: keyword spotting on microcontrollers", 2017, with random weights: 12 words, 49 frames
of 10 cepstral coefficients.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn

import cuvil

HERE = Path(__file__).resolve().parent
COMPILER = (
    sys.executable, "-m", "ziglang", "cc", "-target", "thumb-freestanding-eabihf",
    "-mcpu=cortex_m4+vfp4d16sp", "-O2", "-g0", "-ffreestanding", "-Wl,-e,reset",
)  # fmt: skip
BOARD = ("qemu-system-arm", "-M", "mps2-an386", "-icount", "shift=0", "-nographic", "-monitor",
         "none", "-serial", "none", "-semihosting-config", "enable=on,target=native")  # fmt: skip


class Net(nn.Module):
    """One convolution, four depthwise separable ones, an average."""

    def __init__(self, channels: int = 64, words: int = 12) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(1, channels, (10, 4), 2, (5, 1)), nn.ReLU()]
        for _ in range(4):
            layers += [nn.Conv2d(channels, channels, 3, padding=1, groups=channels), nn.ReLU()]
            layers += [nn.Conv2d(channels, channels, 1), nn.ReLU()]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, words)]
        self.layers = nn.Sequential(*layers)

    def forward(self, features: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"scores": self.layers(features).softmax(-1)}


def build(folder: Path) -> tuple[Path, np.ndarray]:
    """The program for the board, and what the model itself gives for the sample."""
    torch.manual_seed(0)
    model, sample = Net().eval(), torch.randn(1, 1, 49, 10)
    compiled = cuvil.compile(
        model, (sample,), target="c", options={"ram": "128k", "flash": "256k"}
    )  # checked against the model, on this machine
    print({k: v for k, v in compiled.manifest.extra["memory"].items() if type(v) is int})
    compiled.save(folder / "net.c")
    numbers = ", ".join(f"{float(x)!r}f" for x in sample.flatten())
    (folder / "sample.h").write_text(f"static const float sample[] = {{{numbers}}};\n")
    program = folder / "net.elf"
    sources = [HERE / "main.c", HERE / "board.c", folder / "net.c"]
    subprocess.run(
        [*COMPILER, "-I", str(folder), "-I", str(HERE), *map(str, sources), "-T",
         str(HERE / "mps2.ld"), "-o", str(program)],
        check=True,
    )  # fmt: skip
    with torch.no_grad():
        return program, model(sample)["scores"].numpy().reshape(-1)


def run(program: Path) -> tuple[np.ndarray, int]:
    """What the program prints: the scores, and the ticks of the board's clock."""
    done = subprocess.run(
        [*BOARD, "-kernel", str(program)], check=True, capture_output=True, text=True, timeout=120
    )
    words = (done.stdout + done.stderr).split()
    at = words.index("ticks")
    bits = np.array([int(word, 16) for word in words[:at]], np.uint32)
    return bits.view(np.float32), int(words[at + 1], 16)


def main() -> None:
    """Build, run, compare."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        program, expected = build(folder)
        if shutil.which(BOARD[0]) is None:
            print(f"{program} is built; to run it here install {BOARD[0]}")
            return
        scores, ticks = run(program)
        print(f"largest difference {abs(scores - expected).max():.1e}; {ticks} ticks of 25 MHz")


if __name__ == "__main__":
    main()
