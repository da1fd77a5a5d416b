"""`python -m lab.simulation`, which `./simulate` calls."""

from lab.simulation.command import simulate

if __name__ == "__main__":
    simulate(prog_name="./simulate")
