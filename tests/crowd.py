"""How much of this machine others use, which limits of time follow (run.py, moao_test.py)."""
import os


def crowd():
    """Processes that want each core, 1 to 10: a test may take so much longer."""
    return min(10, max(1, os.getloadavg()[0] / (os.cpu_count() or 1)))
