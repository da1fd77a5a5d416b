"""The command's entry: `shunter`, and `python -m shunter`."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the command line."""
    # kio registers its types with Hypothesis wherever that is installed, which costs a command of ours two seconds and
    # 200 MB at its start, and only tests have a use for it.
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]
    from shunter.cli import main  # noqa: PLC0415 - after the line above

    main(prog_name="shunter")


if __name__ == "__main__":
    run()
