"""The command `hammock` of a wheel."""

import os
import sys


def main():
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "hammock")
    if not os.path.exists(program):
        sys.exit("hammock: this build of the package has no command-line tool")
    os.execv(program, [program, *sys.argv[1:]])
