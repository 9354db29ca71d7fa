#include "images.h"

#include <hammock/io.h>

#include <cstdio>

using namespace hammock;

namespace {

constexpr char kFolder[] = "/usr/share/datasets/fashion-mnist/";

std::shared_ptr<const data::ArrayDataset> ReadSet(const std::string& prefix) {
  return std::make_shared<data::ArrayDataset>(std::vector<HostTensor>{
      io::ReadIdx(kFolder + prefix + "-images-idx3-ubyte.gz"),
      io::ReadIdx(kFolder + prefix + "-labels-idx1-ubyte.gz"),
  });
}

/// Ten patterns, each seen through much noise.
std::shared_ptr<const data::ArrayDataset> MakeUp(const Tensor& patterns, int64_t count) {
  Tensor labels = randint(0, 10, {count});
  Tensor images = index_select(patterns, 0, labels) * 96 + rand({count, 28, 28}) * 159;
  return std::make_shared<data::ArrayDataset>(
      std::vector<HostTensor>{images.to(u8).host(), labels.to(u8).host()});
}

}  // namespace

ImageSets ReadImages() {
  try {
    return {"Fashion-MNIST", ReadSet("train"), ReadSet("t10k")};
  } catch (const Error& error) {
    std::printf("%s\nso the images are made up.\n\n", error.what());
    Tensor patterns = rand({10, 28, 28});
    return {"made-up images", MakeUp(patterns, 60000), MakeUp(patterns, 10000)};
  }
}
