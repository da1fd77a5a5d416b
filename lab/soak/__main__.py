"""`python -m lab.soak`, which `./test --soak` calls."""

import sys

from lab.soak.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
