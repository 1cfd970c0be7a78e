"""Forms side by side: none replaces what belongs to another."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import cuvil
from cuvil.errors import ArtifactError

EXAMPLE = (torch.ones(2, 3),)


def test_a_file_of_two_forms_is_written_if_it_is_the_same(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2).eval()
    library = cuvil.compile(model, EXAMPLE, threads=1, verify=False)
    text = cuvil.compile(model, EXAMPLE, threads=1, target="llvm", verify=False)
    library.save(tmp_path / "net.so")
    text.save(tmp_path / "net.ll")
    header = (tmp_path / "net.h").read_bytes()
    source = cuvil.compile(model, EXAMPLE, target="c", verify=False)
    with pytest.raises(ArtifactError, match=r"net\.h: .*net\.so has one of that name") as caught:
        source.save(tmp_path / "net.c")
    assert "another name" in caught.value.hint
    assert (tmp_path / "net.h").read_bytes() == header and not (tmp_path / "net.c").exists()
    source.save(tmp_path / "other.c")


def test_weights_of_another_form_stay(tmp_path: Path) -> None:
    first, second = (
        cuvil.compile(torch.nn.Linear(3, 2).eval(), EXAMPLE, threads=1, target=target, verify=False)
        for target in ("native", "llvm")
    )
    first.save(tmp_path / "net.so")
    weights = (tmp_path / "net.weights").read_bytes()
    with pytest.raises(ArtifactError, match=r"net\.weights: .*net\.so has one of that name"):
        second.save(tmp_path / "net.ll")
    assert (tmp_path / "net.weights").read_bytes() == weights
    third = cuvil.compile(torch.nn.Linear(3, 2).eval(), EXAMPLE, threads=1, verify=False)
    third.save(tmp_path / "net.so")  # its own, once more
    assert (tmp_path / "net.weights").read_bytes() != weights
