"""How much memory a process has held."""

import sys


def peak_mib() -> float:
    """The most this process, or one that it started and waited for, has held; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0.0
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
