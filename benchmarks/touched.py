"""The files of the package that one run of the command uses, and their functions called.

    python benchmarks/touched.py detect --key mine text.txt
    python benchmarks/touched.py --calls detect --key mine text.txt

The rest of the line is a command of ``hammingmark``, run in this process with real models. Each
function counts once, the output of the command goes to standard error, and the bodies of modules
and classes do not count. ``--calls`` lists the functions with the number of calls. C code and other
packages are not counted.
"""

from __future__ import annotations

import inspect
import json
import sys
import threading
from collections import Counter, defaultdict
from contextlib import redirect_stdout, suppress
from pathlib import Path
from types import CodeType, FrameType

import hammingmark
from hammingmark import cli

PACKAGE = Path(hammingmark.__file__).parent


def main() -> None:
    arguments = sys.argv[1:]
    with_calls = arguments[:1] == ["--calls"]
    sys.argv = ["hammingmark", *arguments[with_calls:]]
    calls = calls_of_command()
    files: dict[str, dict[str, int]] = defaultdict(dict)
    for code, count in calls.items():
        file = str(Path(code.co_filename).relative_to(PACKAGE))
        name = getattr(code, "co_qualname", code.co_name)  # qualified from Python 3.11
        files[file][f"{name}:{code.co_firstlineno}"] = count
    for file, functions in sorted(files.items()):
        print(f"{file:<40} {len(functions):>4}")
        for name, count in functions.items() if with_calls else ():
            print(f"    {name:<60} {count:>6}")
    print(json.dumps({"files": len(files), "functions": len(calls)}))


def calls_of_command() -> Counter[CodeType]:
    """The number of calls of each function of the package, in all threads."""
    calls: Counter[CodeType] = Counter()

    def count(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        # Bodies of modules and classes have no fast locals; comprehensions belong to a function.
        is_function = code.co_flags & inspect.CO_OPTIMIZED and (
            code.co_name == "<lambda>" or not code.co_name.startswith("<")
        )
        if event == "call" and is_function and Path(code.co_filename).is_relative_to(PACKAGE):
            calls[code] += 1

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        with redirect_stdout(sys.stderr), suppress(SystemExit):
            cli.main()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return calls


if __name__ == "__main__":
    main()
