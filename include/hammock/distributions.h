#pragma once
/// Probability distributions, PyTorch's by name.
///
///   using namespace hammock::distributions;
///   Normal policy(mean, std);
///   Tensor action = policy.rsample();               // gradients reach mean and std
///   Tensor loss = -policy.log_prob(action).mean() + kl_divergence(policy,
///   Normal(0.0, 1.0)).mean(); Tensor token = Categorical::from_logits(logits).sample();
///
/// Parameters are tensors or numbers and broadcast. Nothing is read: parameters outside of their
/// domain give NaN, not an error. Drawing is by the default generator (`manual_seed`).

#include "hammock/distributions/continuous.h"
#include "hammock/distributions/discrete.h"
#include "hammock/distributions/distribution.h"
#include "hammock/distributions/multivariate.h"
#include "hammock/distributions/transforms.h"
