#include "hammock/checkpoint.h"

#include <set>

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/executor.h"
#include "hammock/io/safetensors.h"
#include "hammock/ops.h"
#include "io/checkpoint_file.h"

namespace hammock {

std::string ChecksumOf(const std::map<std::string, HostTensor>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  Hash128 sum = HashOf(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    sum = Combine(sum, HashString(name + tensor.shape().to_string()));
    sum = Combine(sum, HashBytes(tensor.data(), static_cast<size_t>(tensor.bytes())));
  }
  for (const auto& [name, text] : metadata) {
    if (name != kChecksum) sum = Combine(Combine(sum, HashString(name)), HashString(text));
  }
  return ToString(sum);
}

namespace {

constexpr char kText[] = "text.";  // before the names of texts
constexpr char kRng[] = "rng";

/// The name of an entry of a part in the file.
std::string FullName(const std::string& part, const std::string& name) {
  return name.empty() ? part : part + "." + name;
}

io::NamedHostTensors ReadAll(const StateDict& state) {
  std::vector<Tensor> tensors;
  for (const auto& [name, tensor] : state) tensors.push_back(tensor);
  std::vector<HostTensor> values = LazyGraphExecutor::Get()->GetTensors(tensors);
  io::NamedHostTensors named;
  for (const auto& [name, tensor] : state) named.emplace_back(name, values[named.size()]);
  return named;
}

/// A checkpoint that was read and found undamaged.
struct Contents {
  std::map<std::string, HostTensor> tensors;
  std::map<std::string, std::string> metadata;

  explicit Contents(const std::string& path) {
    io::SafetensorsFile file = io::SafetensorsFile::Open(path);
    metadata = file.metadata();
    if (metadata[kFormat] != kFormatName) {
      Throw(ErrorCode::kParse, "{}: no checkpoint of this version: its format is '{}', not '{}'",
            path, metadata[kFormat], kFormatName);
    }
    for (const std::string& name : file.names()) tensors[name] = file.Read(name);
    if (metadata[kChecksum] != ChecksumOf(tensors, metadata)) {
      Throw(ErrorCode::kParse, "{}: damaged: its checksum does not match", path);
    }
  }

  StateShapes Shapes() const {
    StateShapes shapes;
    for (const auto& [name, tensor] : tensors) shapes.emplace(name, tensor.shape());
    return shapes;
  }
};

/// The entries of a part, without its name.
template <class T>
std::map<std::string, T> EntriesOf(const std::string& part, const std::map<std::string, T>& all) {
  std::map<std::string, T> entries;
  for (const auto& [name, value] : all) {
    if (name == part) entries.emplace("", value);
    if (name.starts_with(part + ".")) entries.emplace(name.substr(part.size() + 1), value);
  }
  return entries;
}

/// How texts differ, in the manner of StateDifferences.
std::string TextDifferences(const std::set<std::string>& expected, const Contents& contents) {
  std::string lines;
  for (const std::string& name : expected) {
    if (!contents.metadata.contains(kText + name)) lines += "\n  missing: " + name + ", a text";
  }
  for (const auto& [key, text] : contents.metadata) {
    if (!key.starts_with(kText) || expected.contains(key.substr(sizeof(kText) - 1))) continue;
    lines += "\n  unexpected: " + key.substr(sizeof(kText) - 1) + ", a text";
  }
  return lines;
}

}  // namespace

StateDict CheckpointPart::NumberState(const Scalar& number, DType dtype) {
  return {{"", tensor(number, dtype)}};
}
StateShapes CheckpointPart::NumberShapes(DType dtype) { return {{"", Shape(dtype, {})}}; }

CheckpointPart::CheckpointPart(std::string name, Tensor& tensor) : name_(std::move(name)) {
  save_ = [&tensor] { return StateDict{{"", tensor}}; };
  expect_ = [&tensor](const StateShapes&) { return StateShapes{{"", tensor.shape()}}; };
  load_ = [&tensor](const StateDict& state) { CopyState({{"", tensor}}, state, "tensor", false); };
}

CheckpointPart::CheckpointPart(std::string name, Generator& generator) : name_(std::move(name)) {
  save_ = [&generator] {
    return StateDict{{"seed", tensor(generator.seed(), DType::kU64)},
                     {"offset", tensor(generator.offset(), DType::kU64)}};
  };
  expect_ = [](const StateShapes&) {
    return StateShapes{{"seed", Shape(DType::kU64, {})}, {"offset", Shape(DType::kU64, {})}};
  };
  load_ = [&generator](const StateDict& state) {
    auto number = [&](const char* entry) { return state.at(entry).to_vector<uint64_t>()[0]; };
    if (&generator == &Generator::Default()) manual_seed(number("seed"));  // backends, too
    generator.manual_seed(number("seed"));
    generator.set_offset(number("offset"));
  };
}

Checkpoint::Checkpoint(std::vector<CheckpointPart> parts, Location at) : parts_(std::move(parts)) {
  LocationScope scope(at);
  parts_.emplace_back(kRng, Generator::Default());
  std::set<std::string> names;
  for (const CheckpointPart& part : parts_) {
    const std::string& name = part.name();
    if (!name.empty() && name.find('.') == std::string::npos && names.insert(name).second) continue;
    Throw(ErrorCode::kValue,
          "checkpoint: '{}' cannot be the name of a part: names have no dot and occur once, and "
          "'{}' is taken",
          name, kRng);
  }
}

void Checkpoint::save(const std::string& path, Location at) const {
  LocationScope scope(at);
  StateDict state;
  std::map<std::string, std::string> metadata = {{kFormat, kFormatName}};
  for (const CheckpointPart& part : parts_) {
    if (part.text_) {
      metadata[kText + part.name()] = *part.text_;
      continue;
    }
    for (const auto& [name, tensor] : part.save_()) state[FullName(part.name(), name)] = tensor;
  }
  io::NamedHostTensors tensors = ReadAll(state);
  metadata[kChecksum] = ChecksumOf({tensors.begin(), tensors.end()}, metadata);
  io::WriteSafetensors(path, tensors, metadata);
}

void Checkpoint::load(const std::string& path, bool strict, Location at) {
  LocationScope scope(at);
  Contents contents(path);
  StateShapes given = contents.Shapes(), expected;
  std::set<std::string> texts;
  for (const CheckpointPart& part : parts_) {
    if (part.text_) {
      texts.insert(part.name());
      continue;
    }
    for (const auto& [name, shape] : part.expect_(EntriesOf(part.name(), given))) {
      expected.emplace(FullName(part.name(), name), shape);
    }
  }
  std::string differences = StateDifferences(expected, given, strict);
  if (strict) differences += TextDifferences(texts, contents);
  if (!differences.empty()) {
    Throw(ErrorCode::kValue, "the checkpoint '{}' does not fit:{}", path, differences);
  }
  // From here on nothing is refused.
  StateDict values;
  for (const auto& [name, shape] : expected) {
    auto found = contents.tensors.find(name);
    if (found == contents.tensors.end()) continue;
    HostTensor value = std::move(found->second);
    if (value.dtype() != shape.dtype()) value = value.To(shape.dtype());
    values[name] = from_host(std::move(value));
  }
  for (CheckpointPart& part : parts_) {
    if (part.text_) {
      auto text = contents.metadata.find(kText + part.name());
      if (text != contents.metadata.end()) *part.text_ = text->second;
      continue;
    }
    // Entries that the file lacks stay as they are.
    StateDict entries = EntriesOf(part.name(), values);
    if (entries.empty()) continue;
    if (!strict) entries.merge(part.save_());
    part.load_(entries);
  }
}

void save_weights(const Module& module, const std::string& path, Location at) {
  LocationScope scope(at);
  NamedTensors state = module.state_dict();
  io::WriteSafetensors(path, ReadAll({state.begin(), state.end()}), {{kFormat, "pt"}});
}

void load_weights(Module& module, const std::string& path, bool strict, Location at) {
  LocationScope scope(at);
  io::SafetensorsFile file = io::SafetensorsFile::Open(path);
  NamedTensors values;
  for (const std::string& name : file.names())
    values.emplace_back(name, from_host(file.Read(name)));
  module.load_state_dict(values, strict);
}

}  // namespace hammock
