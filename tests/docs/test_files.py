"""The pages can be followed in one folder: no two save to files of one name."""

from __future__ import annotations

import re

from tests.docs.test_code import ROOT, WITH_CODE, blocks

_SAVED = re.compile(r"\.save\((?:[^\n]*, )?\"([\w.-]+)\.\w+\"\)")
# Beginnings of one and the same program.
_SAME = {"README.md": "start", "docs/index.md": "start"}


def saved(text: str) -> set[str]:
    """Names of the files that a page's code saves, without what comes after the dot: a form has
    files of several kinds beside it."""
    return {name for code, _ in blocks(text) for name in _SAVED.findall(code)}


def test_no_two_pages_save_to_one_name() -> None:
    pages: dict[str, set[str]] = {}
    for page in WITH_CODE:
        place = page.relative_to(ROOT).as_posix()
        for name in saved(page.read_text(encoding="utf-8")):
            pages.setdefault(name, set()).add(_SAME.get(place, place))
    shared = {name: sorted(found) for name, found in pages.items() if len(found) > 1}
    assert shared == {}
    assert {"layer", "sensor", "page", "several", "linear", "product"} <= pages.keys()


def test_what_is_saved_is_found() -> None:
    code = 'onnx.save(model, "a.onnx")\nprint(built.save("b.so"))\nx.save(path)\n'
    assert saved(f"```python\n{code}```\n") == {"a", "b"}
    assert saved('    compiled.save("c.so")\n') == set()
