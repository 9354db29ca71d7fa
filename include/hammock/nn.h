#pragma once
/// Layers, losses and initial values, by PyTorch's names.

#include "hammock/nn/activation.h"
#include "hammock/nn/containers.h"
#include "hammock/nn/dropout.h"
#include "hammock/nn/init.h"
#include "hammock/nn/layer.h"
#include "hammock/nn/linear.h"
#include "hammock/nn/loss.h"
#include "hammock/nn/norm.h"
#include "hammock/nn/packed_sequence.h"
#include "hammock/nn/parametrize.h"
#include "hammock/nn/pooling.h"
#include "hammock/nn/recurrent.h"
#include "hammock/nn/transformer.h"
