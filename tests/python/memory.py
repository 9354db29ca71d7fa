"""Memory of the test's process."""

import os


def resident_bytes():
    """What is resident now; the peak, which `resource` tells, hides leaks behind an earlier need."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
