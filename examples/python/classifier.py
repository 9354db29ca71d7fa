"""Learns to tell clothes apart, with a progress bar: Fashion-MNIST where Debian's package dataset-fashion-mnist is
installed, else pictures of lying bars, standing bars and discs that are drawn here.

    python classifier.py --epochs 2
"""

import argparse
import gzip
import pathlib
import sys
import time

import numpy as np

import hammock as hm
from hammock import data, nn, optim

FOLDER = pathlib.Path("/usr/share/datasets/fashion-mnist")


def fashion(part: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    images = np.frombuffer(gzip.open(FOLDER / f"{part}-images-idx3-ubyte.gz").read(), np.uint8, offset=16)
    labels = np.frombuffer(gzip.open(FOLDER / f"{part}-labels-idx1-ubyte.gz").read(), np.uint8, offset=8)
    return images.reshape(-1, 1, 28, 28)[:count] / np.float32(255), labels[:count].astype(np.int64)


def drawn(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.RandomState(seed)
    images, labels = random.rand(count, 1, 28, 28).astype(np.float32) * 0.3, random.randint(0, 3, count)
    y, x = np.mgrid[:28, :28]
    for image, label in zip(images[:, 0], labels):
        a, b, r = random.randint(9, 19), random.randint(9, 19), random.randint(5, 8)
        dx, dy = abs(x - a), abs(y - b)
        image[[(dx < r) & (dy < 2), (dx < 2) & (dy < r), dx**2 + dy**2 < r * r][label]] += 0.7
    return images, labels.astype(np.int64)


def bar(done: int, total: int, text: str) -> None:
    filled = 30 * done // total
    sys.stderr.write(f"\r[{'#' * filled}{'.' * (30 - filled)}] {done}/{total} {text}")
    sys.stderr.flush()


def main() -> float:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--images", type=int, default=12000)
    parser.add_argument("--drawn", action="store_true", help="draw the pictures even where Fashion-MNIST is")
    options = parser.parse_args()

    hm.manual_seed(0)
    if FOLDER.exists() and not options.drawn:
        (images, labels), (test_images, test_labels) = fashion("train", options.images), fashion("t10k", 1000)
    else:
        (images, labels), (test_images, test_labels) = drawn(1, options.images), drawn(2, 500)
    net = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 7 * 7, 10),
    )
    optimizer = optim.AdamW(net.parameters(), lr=3e-3)

    @hm.compile
    def train(x: hm.Tensor, y: hm.Tensor) -> hm.Tensor:
        optimizer.zero_grad()
        loss = hm.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss

    loader = data.DataLoader(data.TensorDataset(hm.tensor(images), hm.tensor(labels)), batch_size=50, shuffle=True)
    batches, begin = len(loader), time.time()
    for epoch in range(options.epochs):
        total = hm.tensor(0.0)  # a tensor: nothing waits for the device
        for i, (x, y) in enumerate(loader, 1):
            total = total + train(x, y)
            if i % 10 == 0 or i == batches:
                bar(i, batches, f"epoch {epoch + 1}, loss {total / i:.3f}")
        sys.stderr.write("\n")
    with hm.no_grad():
        right = (net(hm.tensor(test_images)).argmax(1) == hm.tensor(test_labels)).sum().item()
    accuracy = right / len(test_labels)
    print(f"{accuracy:.1%} of {len(test_labels)} new images are right after {time.time() - begin:.1f} s")
    return accuracy


if __name__ == "__main__":
    main()
