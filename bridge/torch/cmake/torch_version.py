"""Where PyTorch is and which one; the version of the package names it ("0.1+torch2.15").

Run as a program it prints the folder of PyTorch in this environment, which the isolated environment
of a build does not import.
"""

import os
import re
import sysconfig

VERSION = "0.1"


def torch_root():
    for kind in ("purelib", "platlib"):
        root = os.path.join(sysconfig.get_paths()[kind], "torch")
        if os.path.exists(os.path.join(root, "version.py")):
            return root
    return ""


def torch_version():
    root = torch_root() or "/usr/lib/python3/dist-packages/torch"
    with open(os.path.join(root, "version.py")) as file:
        return re.search(r"__version__ = '(\d+\.\d+)", file.read()).group(1)


def dynamic_metadata(field, settings=None):
    return f"{VERSION}+torch{torch_version()}"


if __name__ == "__main__":
    print(torch_root())
