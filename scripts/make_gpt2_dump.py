"""Write docs/dumps/gpt2_step.hlo, which the tutorials read: a training step of GPT-2 with two layers, as JAX lowers it.

    python scripts/make_gpt2_dump.py
"""

from __future__ import annotations

from pathlib import Path

from lower_gpt2 import Config, lower

ROOT = Path(__file__).resolve().parent.parent
LAYERS = 2


def main() -> None:
    text = lower(Config(layers=LAYERS)).replace(f"{ROOT}/", "")
    (ROOT / "docs" / "dumps" / "gpt2_step.hlo").write_text(text)


if __name__ == "__main__":
    main()
