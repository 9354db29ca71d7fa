"""A backend of another repository, written in C++, used from Python: HAMMOCK_LOAD names its library.

    cmake -S examples/backend -B toy -DCMAKE_PREFIX_PATH=<where Hammock is installed> && cmake --build toy
    HAMMOCK_LOAD=toy/libtoy_backend.so python outside_backend.py
"""

import os
import sys

import hammock as hm


def main() -> str:
    known = {"cpu", "reference", "null", "cuda"}
    others = [device for device in hm.devices() if device.type not in known]
    if not others:
        sys.exit(f"no device but Hammock's own; HAMMOCK_LOAD is '{os.environ.get('HAMMOCK_LOAD', '')}'")
    device = others[0]
    x = hm.tensor([[1.0, 2.0], [3.0, 4.0]], device=device)
    y = (x @ x + 1).relu()
    print(f"{y.summary()}")
    print(y)
    same = hm.allclose(y.cpu(), (x.cpu() @ x.cpu() + 1).relu())
    print(f"{device} and cpu agree: {same}")
    assert same
    return str(device)


if __name__ == "__main__":
    main()
