#pragma once
/// Data for training: data sets, the order in which they are read, and batches made ahead of need.
///
///   auto train = data::ArrayDataset({images, labels});
///   data::DataLoader loader(train, {.batch_size = 64, .shuffle = true, .workers = 1});
///   for (int epoch = 0; epoch < 3; ++epoch) {
///     for (const data::Batch& batch : loader) Step(batch[0], batch[1]);
///   }

#include "hammock/data/dataset.h"
#include "hammock/data/loader.h"
#include "hammock/data/samplers.h"
