"""What the comparisons of this folder share: libraries take turns, and times are those of all processors, which the load of
the machine changes less than others."""

import argparse
import time

import hammock as hm


def take_turns(functions, seconds=0.6):
    """The best processor time of each function by name, called in turns for `seconds` each."""
    best = dict.fromkeys(functions, float("inf"))
    for function in functions.values():
        for _ in range(3):
            function()
    end = time.perf_counter() + seconds * len(functions)
    while time.perf_counter() < end:
        for name, function in functions.items():
            start = time.process_time()
            function()
            best[name] = min(best[name], time.process_time() - start)
    return best


def threads_of_command_line(torch=None):
    """The number of threads that `--threads` asks for, one by default, set for Hammock and PyTorch."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args().threads
    hm.config.set("cpu.threads", threads)
    if torch:
        torch.set_num_threads(threads)
    return threads
