// Every op record's samples; sizes and indices.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "conform/check_functions.h"
#include "conform/rule_kit.h"
#include "hammock/testing.h"

namespace hammock::tool {
namespace {

/// The sample of which CheckOp says something, as a call and as a graph; the first op's is enough.
void ShowSample(const OpDef& op, const std::string& text) {
  constexpr std::string_view kSample = ", sample ";
  const size_t at = text.find(kSample);
  if (at == text.npos || !ShownText().empty()) return;
  SetDefaultDevice("reference");
  const auto [call, graph] =
      testing::DescribeSample(op, std::strtoul(text.c_str() + at + kSample.size(), nullptr, 10));
  ShowOnly(call);
  ShowGraph(graph);
}

/// The fault that CheckOp finds on a device, where it is compared with itself; empty if there is
/// none.
std::string CheckOn(const OpDef& op, const Device& device) {
  SetDefaultDevice(device);
  manual_seed(1);  // equal samples on both
  try {
    return testing::CheckOp(op);
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// Whether an op was left to the fallback device, which is off.
bool IsRefused(const std::string& fault) { return fault.find("not run by") != fault.npos; }

/// Factors are unique but for their signs, or the phases of complex ones.
HostTensor WithoutSigns(const OpDef& op, HostTensor result) {
  const std::string_view name = op.name();
  if (name != "linalg_qr" && name != "linalg_svd") return result;
  for (int64_t i = 0; i < result.numel(); ++i) {
    const Scalar value = result.at(i);
    result.set(i, std::hypot(value.ToDouble(), value.imag()));
  }
  return result;
}

/// The first result of a sample that is not the reference's.
std::string SampleDiffers(const OpDef& op, size_t sample, const Device& device) {
  std::vector<HostTensor> wanted;
  try {
    wanted = testing::RunSample(op, sample, "reference");
  } catch (const std::exception&) {
    return "";  // not the device's fault
  }
  const std::vector<HostTensor> got = testing::RunSample(op, sample, device);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::string differs = Difference(WithoutSigns(op, got.at(i)), WithoutSigns(op, wanted[i]),
                                           ToleranceOf(wanted[i].dtype()));
    if (!differs.empty()) {
      return fmt::format("{}, sample {}: result {}: {}", op.name(), sample, i, differs);
    }
  }
  return "";
}

/// A finding of CheckOp on the device alone, else the first value that is not the reference's.
std::string FaultOf(const OpDef& op, const Device& device) {
  const std::string text = CheckOn(op, device);
  if (!text.empty()) {
    return IsRefused(text) || CheckOn(op, "reference").empty() ? text : "";
  }
  std::string differs;
  for (size_t i = 0; i < testing::SampleCount(op) && differs.empty(); ++i) {
    differs = SampleDiffers(op, i, device);
  }
  return differs;
}

bool HasSamples(const OpDef& op) { return op.samples[0].operands || op.IsElementwise(); }

/// The fault as a line; the call of the op is shown.
std::string Described(const OpDef& op, const std::string& fault) {
  ShowSample(op, fault);
  return fmt::format("{}: {}\n", op.name(), fault);
}

}  // namespace

std::string SamplesAgree(const Subject& subject) {
  Device device = Open(subject);
  std::string wrong;
  for (const OpDef* op : op_registry::All()) {
    if (!op->IsNode() || !HasSamples(*op)) continue;
    const std::string fault = FaultOf(*op, device);
    if (!fault.empty()) wrong += Described(*op, fault);
  }
  return wrong;
}

std::string RunsAllPrimitives(const Subject& subject) {
  Device device = Open(subject);
  config::Override fallback("fallback", "false");
  std::string wrong, missing;
  int refused = 0, checked = 0;
  for (const OpDef* op : op_registry::All()) {
    if (!op->IsPrimitive() || !HasSamples(*op)) continue;
    ++checked;
    const std::string fault = FaultOf(*op, device);
    if (IsRefused(fault)) {
      ++refused;
      missing += fmt::format(" {}", op->name());
    } else if (!fault.empty()) {
      wrong += Described(*op, fault);
    }
  }
  if (refused > 0) {
    wrong += fmt::format(
        "{} of {} primitives are not run by the device:{}\n"
        "One is run where the device takes it with all dtypes of its samples.\n",
        refused, checked, missing);
  }
  return wrong;
}

std::string AcceptsOddSizes(const Subject& subject) {
  Device device = Open(subject);
  std::string wrong;
  for (const Dims& sizes :
       {Dims{}, Dims{0}, Dims{1}, Dims{3, 0}, Dims{1, 1, 1}, Dims{2, 3, 1, 2}}) {
    HostTensor host = Ramp(f32, sizes);
    SHOWN(auto run = [&](const Device& on) {
      Tensor x = from_host(host, on), y = x * 2.0f + x;
      if (on != Device("reference")) ShowGraph({y});
      return y.host();
    });
    std::string differs = Difference(run(device), run("reference"), 1e-6);
    if (!differs.empty()) wrong += fmt::format("{}: {}\n", host.shape().to_string(), differs);
  }
  return wrong;
}

std::string RaisesBadIndices(const Subject& subject) {
  Device device = Open(subject);
  SHOWN(Tensor x = from_host(Ramp(f32, {4}), device);
        Tensor bad = gather(x, 0, tensor(std::vector<int64_t>{9}, std::nullopt, device));
        Tensor good = x + 1.0f);
  ShowGraph({bad, good});
  mark_step();
  std::string wrong = ExpectError<Error>("an index of 9 in 4 elements", [&] { bad.host(); });
  HostTensor wanted = Ramp(f32, {4});
  for (int64_t i = 0; i < 4; ++i) wanted.set(i, wanted.at(i).ToDouble() + 1);
  return wrong + Line(Difference(good.host(), wanted));
}

}  // namespace hammock::tool
