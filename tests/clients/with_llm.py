"""The command ``llm``, unchanged: python with_llm.py, with BASE_URL set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = """
- model_id: marked
  model_name: hammingmark
  api_base: {url}
- model_id: marked-text
  model_name: hammingmark
  api_base: {url}
  completion: true
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        models = Path(folder) / "extra-openai-models.yaml"
        models.write_text(MODELS.format(url=os.environ["BASE_URL"]), encoding="utf-8")
        os.environ |= {"LLM_USER_PATH": folder, "OPENAI_API_KEY": "unused"}
        limit = ("-o", "max_tokens", "40")
        assert run("-m", "marked", "Why does it rain?", *limit).strip()
        assert run("-m", "marked-text", "It rained.", *limit).strip()
        assert run("-m", "marked", "Why does it rain?", *limit, "--no-stream").strip()
        (log,) = json.loads(run("logs", "-n", "1", "--json"))
        answer = log["response_json"]
        assert answer["watermark"]["status"] in {"marked", "partly", "unmarked"}


def run(*words: str) -> str:
    command = [sys.executable, "-m", "llm", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


if __name__ == "__main__":
    main()
