import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


def pytest_terminal_summary(terminalreporter):
    """Print how many inputs the decoders got, because the time limit does not show that."""
    reached = [
        dict(report.user_properties)
        for report in terminalreporter.getreports("passed")
        if "tests/fuzz" in report.nodeid and dict(report.user_properties).get("inputs")
    ]
    if reached:
        inputs, accepted = (sum(each[name] for each in reached) for name in ("inputs", "accepted"))
        terminalreporter.write_line(f"fuzzing: {inputs} inputs to {len(reached)} decoders, {accepted} of them accepted")
