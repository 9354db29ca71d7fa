#pragma once
/// The data of the demo.

#include <hammock/data.h>
#include <hammock/hammock.h>

#include <memory>

struct ImageSets {
  std::string name;
  std::shared_ptr<const hammock::data::ArrayDataset> train, test;  // u8[n, 28, 28], u8[n]
};

/// Fashion-MNIST, of the Debian package of that name; where it cannot be read, made-up images.
ImageSets ReadImages();
