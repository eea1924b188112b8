"""Numbers in words."""


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def counted(count: int, what: str) -> str:
    """1 page, 2 pages."""
    return f"{count:,} {what}{'s' * (count != 1)}"
