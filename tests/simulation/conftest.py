import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def pytest_terminal_summary(terminalreporter):
    """Print how many worlds or mutants ran within the time limits, and what never happened in them."""
    for report in terminalreporter.getreports("passed"):
        told = dict(report.user_properties).get("simulated")
        if told and "tests/simulation" in report.nodeid:
            terminalreporter.write_line(f"simulation: {told}")
