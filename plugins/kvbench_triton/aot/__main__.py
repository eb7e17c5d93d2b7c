"""Compile every kernel ahead of time and write or print the table.

Usage: ``python -m kvbench_triton.aot [--write FILE] [--json FILE]``
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path


def main() -> int:
    """Run the command; refuse in an interpreting process."""
    parser = argparse.ArgumentParser(prog="python -m kvbench_triton.aot", description=__doc__)
    parser.add_argument("--write", type=Path, help="write the document here")
    parser.add_argument("--json", type=Path, help="write the rows here")
    chosen = parser.parse_args()
    if os.environ.get("TRITON_INTERPRET") == "1":
        print("TRITON_INTERPRET is set: unset it to compile", file=sys.stderr)
        return 2
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    from kvbench_triton.aot.table import as_json, compile_all, document

    rows = compile_all()
    if chosen.json:
        chosen.json.write_text(json.dumps(as_json(rows), indent=1))
    if chosen.write:
        chosen.write.write_text(document(rows))
    if not (chosen.json or chosen.write):
        print(document(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
