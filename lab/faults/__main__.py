"""`python -m lab.faults`, which `./test --faults` calls."""

import sys

from lab.faults.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
