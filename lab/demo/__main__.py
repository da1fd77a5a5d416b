"""`python -m lab.demo`, which `./demo` calls."""

from lab.demo.command import demo

if __name__ == "__main__":
    demo(prog_name="./demo")
