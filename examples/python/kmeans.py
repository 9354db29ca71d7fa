"""k-means on NumPy data: arrays go in and come out, and the loop in between is one compiled step.

    python kmeans.py --points 100000
"""

import argparse

import numpy as np

import hammock as hm


def kmeans(points: np.ndarray, k: int, rounds: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Centres, and the centre of each point."""
    x = hm.asarray(points)
    first = [0]  # each next one is the point farthest from those before
    for _ in range(k - 1):
        first.append(int(hm.cdist(x, x[first]).amin(1).argmax()))
    centres = x[first]

    @hm.compile
    def improve(centres: hm.Tensor) -> tuple[hm.Tensor, hm.Tensor]:
        nearest = hm.cdist(x, centres).argmin(1)
        mine = hm.one_hot(nearest, k).to(x.dtype)
        counts = mine.sum(0).unsqueeze(1)
        means = mine.mT @ x / counts.clamp(min=1)
        return hm.where(counts > 0, means, centres), nearest

    centres, nearest = improve(centres)
    for _ in range(rounds - 1):
        before = centres
        centres, nearest = improve(centres)
        if bool((centres == before).all()):
            break
    return centres.numpy(), nearest.numpy()


def main() -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=20000)
    parser.add_argument("-k", type=int, default=5)
    options = parser.parse_args()

    random = np.random.RandomState(0)
    true = random.rand(options.k, 2).astype(np.float32) * 10
    points = (true[random.randint(0, options.k, options.points)] + random.randn(options.points, 2) * 0.1).astype(np.float32)
    centres, nearest = kmeans(points, options.k)
    error = max(np.linalg.norm(centres - centre, axis=1).min() for centre in true)
    print(f"{options.points} points, centres found to {error:.3f}; sizes {np.bincount(nearest, minlength=options.k)}")
    return float(error)


if __name__ == "__main__":
    main()
