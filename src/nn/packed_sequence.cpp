#include "hammock/nn/packed_sequence.h"

#include <algorithm>
#include <numeric>

#include "base/throw.h"
#include "hammock/nn/recurrent.h"
#include "hammock/ops.h"

namespace hammock::nn {
namespace {

using Numbers = std::vector<int64_t>;

int64_t LengthOf(const Numbers& batch_sizes, int64_t sequence) {
  return std::ranges::count_if(batch_sizes, [&](int64_t size) { return size > sequence; });
}

Numbers Inverse(const Numbers& order) {
  Numbers inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = int64_t(i);
  return inverse;
}

Numbers SortedByLength(const Numbers& lengths) {
  Numbers order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return lengths[a] > lengths[b]; });
  return order;
}

Tensor Rows(const Tensor& from, int64_t dim, const Numbers& order) {
  return order.empty() ? from : index_select(from, dim, tensor(order).to(from.device()));
}

void CheckLengths(const char* op, const Tensor& input, int64_t time, int64_t batch,
                  const Numbers& lengths) {
  bool fits = static_cast<int64_t>(lengths.size()) == batch;
  for (int64_t length : lengths) fits = fits && length > 0 && length <= time;
  if (fits) return;
  Throw(ErrorCode::kValue, "{}: {} needs {} lengths from 1 to {}, not {}", op,
        input.shape().to_string(), batch, time, ToString(Dims(lengths)));
}

}  // namespace

Numbers PackedSequence::lengths() const {
  Numbers result;
  for (int64_t i = 0; i < batch(); ++i) {
    int64_t sorted = unsorted_indices.empty() ? i : unsorted_indices[i];
    result.push_back(LengthOf(batch_sizes, sorted));
  }
  return result;
}

PackedSequence pack_padded_sequence(const Tensor& input, const Numbers& lengths, bool batch_first,
                                    bool enforce_sorted, Location at) {
  LocationScope scope(at);
  if (input.dim() < 2) {
    Throw(ErrorCode::kShapeMismatch, "pack_padded_sequence: {} has no time and batch",
          input.shape().to_string());
  }
  Tensor padded = batch_first ? transpose(input, 0, 1) : input;
  const int64_t time = padded.size(0), batch = padded.size(1);
  CheckLengths("pack_padded_sequence", input, time, batch, lengths);
  PackedSequence packed;
  Numbers order = SortedByLength(lengths);
  if (!enforce_sorted) {
    packed.sorted_indices = order;
    packed.unsorted_indices = Inverse(order);
  } else if (!std::ranges::is_sorted(lengths, std::greater())) {
    Throw(ErrorCode::kValue,
          "pack_padded_sequence: the lengths {} do not fall; sort them or pass enforce_sorted = "
          "false",
          ToString(Dims(lengths)));
  }
  Numbers rows;
  for (int64_t t = 0; t < time; ++t) {
    int64_t size = std::ranges::count_if(lengths, [&](int64_t length) { return length > t; });
    if (size == 0) break;
    packed.batch_sizes.push_back(size);
    for (int64_t i = 0; i < size; ++i) rows.push_back(t * batch + order[i]);
  }
  packed.data = Rows(flatten(padded, 0, 1), 0, rows);
  return packed;
}

std::pair<Tensor, Numbers> pad_packed_sequence(const PackedSequence& sequence, bool batch_first,
                                               double padding_value,
                                               std::optional<int64_t> total_length, Location at) {
  LocationScope scope(at);
  const auto longest = static_cast<int64_t>(sequence.batch_sizes.size());
  const int64_t time = total_length.value_or(longest), batch = sequence.batch();
  if (time < longest) {
    Throw(ErrorCode::kValue, "pad_packed_sequence: total_length is {}, the longest sequence {}",
          time, longest);
  }
  const Tensor& data = sequence.data;
  Dims padding = data.sizes();
  padding[0] = 1;
  Tensor rows = cat({data, full(padding, padding_value, data.dtype(), data.device())}, 0);
  Numbers index;
  int64_t first = 0;
  for (int64_t t = 0; t < time; ++t) {
    int64_t size = t < longest ? sequence.batch_sizes[t] : 0;
    for (int64_t i = 0; i < batch; ++i) {
      const Numbers& unsorted = sequence.unsorted_indices;
      int64_t sorted = unsorted.empty() ? i : unsorted[i];
      index.push_back(sorted < size ? first + sorted : data.size(0));
    }
    first += size;
  }
  Tensor padded = unflatten(Rows(rows, 0, index), 0, {time, batch});
  return {batch_first ? transpose(padded, 0, 1) : padded, sequence.lengths()};
}

Tensor pad_sequence(const std::vector<Tensor>& sequences, bool batch_first, double padding_value,
                    const std::string& padding_side, Location at) {
  LocationScope scope(at);
  if (sequences.empty()) Throw(ErrorCode::kValue, "pad_sequence: no sequences");
  if (padding_side != "right" && padding_side != "left") {
    Throw(ErrorCode::kValue, "pad_sequence: padding_side '{}' is not right or left", padding_side);
  }
  int64_t longest = 0;
  for (const Tensor& sequence : sequences) longest = std::max(longest, sequence.size(0));
  std::vector<Tensor> padded;
  for (const Tensor& sequence : sequences) {
    int64_t missing = longest - sequence.size(0);
    std::vector<int64_t> pads(static_cast<size_t>(2 * sequence.dim()));
    pads[pads.size() - (padding_side == "left" ? 2 : 1)] = missing;
    padded.push_back(missing == 0 ? sequence : pad(sequence, pads, "constant", padding_value));
  }
  return stack(padded, batch_first ? 0 : 1);
}

std::vector<Tensor> unpad_sequence(const Tensor& padded, const Numbers& lengths, bool batch_first,
                                   Location at) {
  LocationScope scope(at);
  Tensor by_batch = batch_first ? padded : transpose(padded, 0, 1);
  CheckLengths("unpad_sequence", padded, by_batch.size(1), by_batch.size(0), lengths);
  std::vector<Tensor> sequences;
  for (size_t i = 0; i < lengths.size(); ++i) {
    sequences.push_back(narrow(select(by_batch, 0, static_cast<int64_t>(i)), 0, 0, lengths[i]));
  }
  return sequences;
}

PackedSequence pack_sequence(const std::vector<Tensor>& sequences, bool enforce_sorted,
                             Location at) {
  Numbers lengths;
  for (const Tensor& sequence : sequences) lengths.push_back(sequence.size(0));
  return pack_padded_sequence(pad_sequence(sequences, false, 0, "right", at), lengths, false,
                              enforce_sorted, at);
}

std::vector<Tensor> unpack_sequence(const PackedSequence& sequence, Location at) {
  auto [padded, lengths] = pad_packed_sequence(sequence, true, 0, std::nullopt, at);
  return unpad_sequence(padded, lengths, true, at);
}

// ---- Recurrent layers

namespace {

using Tensors = std::vector<Tensor>;

/// Times in a row at which as many sequences go on.
struct Segment {
  int64_t first_row, times, batch;
};

std::vector<Segment> SegmentsOf(const Numbers& batch_sizes) {
  std::vector<Segment> segments;
  int64_t row = 0;
  for (int64_t size : batch_sizes) {
    if (segments.empty() || segments.back().batch != size) segments.push_back({row, 0, size});
    ++segments.back().times;
    row += size;
  }
  return segments;
}

Tensors Part(const Tensors& states, int64_t start, int64_t count) {
  Tensors parts;
  for (const Tensor& state : states) parts.push_back(narrow(state, 1, start, count));
  return parts;
}

void Append(Tensors& states, const Tensors& more) {
  for (size_t i = 0; i < states.size(); ++i) states[i] = cat({states[i], more[i]}, 1);
}

/// One direction of one layer: runs `step` on each segment. States are (1, batch, features).
class PackedDirection {
 public:
  PackedDirection(const std::vector<Segment>& segments, const RNNBase::LayerFn& run,
                  const Tensors& params)
      : segments_(segments), run_(run), params_(params) {}

  /// Sequences end, the longest last: their states are put aside.
  Tensor Forward(const Tensor& data, Tensors& states) const {
    Tensors outputs, current = states;
    std::vector<Tensors> ended;
    for (const Segment& segment : segments_) {
      int64_t more = current[0].size(1) - segment.batch;
      if (more > 0) ended.push_back(Part(current, segment.batch, more));
      current = Part(current, 0, segment.batch);
      outputs.push_back(Run(segment, data, current, false));
    }
    for (size_t i = ended.size(); i-- > 0;) Append(current, ended[i]);
    states = current;
    return cat(outputs, 0);
  }

  /// From the last time to the first: shorter sequences join in with their initial states.
  Tensor Reverse(const Tensor& data, Tensors& states) const {
    Tensors outputs, current;
    for (size_t i = segments_.size(); i-- > 0;) {
      const Segment& segment = segments_[i];
      if (current.empty()) {
        current = Part(states, 0, segment.batch);
      } else {
        int64_t running = current[0].size(1);
        Append(current, Part(states, running, segment.batch - running));
      }
      outputs.insert(outputs.begin(), Run(segment, data, current, true));
    }
    states = current;
    return cat(outputs, 0);
  }

 private:
  Tensor Run(const Segment& segment, const Tensor& data, Tensors& states, bool reverse) const {
    Tensor block = unflatten(narrow(data, 0, segment.first_row, segment.times * segment.batch), 0,
                             {segment.times, segment.batch});
    auto [output, last] = run_(reverse ? flip(block, {0}) : block, states, params_);
    states = last;
    return flatten(reverse ? flip(output, {0}) : output, 0, 1);
  }

  const std::vector<Segment>& segments_;
  const RNNBase::LayerFn& run_;
  const Tensors params_;
};

}  // namespace

std::pair<PackedSequence, Tensors> RNNBase::RunPacked(const PackedSequence& input, Tensors states,
                                                      const LayerFn& run) const {
  const std::vector<Segment> segments = SegmentsOf(input.batch_sizes);
  const Tensors all = params();
  const size_t each = all.size() / static_cast<size_t>(options.num_layers * directions());
  for (Tensor& state : states) state = Rows(state, 1, input.sorted_indices);
  std::vector<Tensors> last(states.size());
  Tensor data = input.data;
  for (int64_t layer = 0; layer < options.num_layers; ++layer) {
    Tensors outputs;
    for (int64_t direction = 0; direction < directions(); ++direction) {
      int64_t number = layer * directions() + direction;
      auto first = all.begin() + static_cast<ptrdiff_t>(each) * number;
      PackedDirection packed(segments, run, Tensors(first, first + static_cast<ptrdiff_t>(each)));
      Tensors own;
      for (const Tensor& state : states) own.push_back(narrow(state, 0, number, 1));
      outputs.push_back(direction == 0 ? packed.Forward(data, own) : packed.Reverse(data, own));
      for (size_t i = 0; i < own.size(); ++i) last[i].push_back(own[i]);
    }
    data = cat(outputs, -1);
    if (layer + 1 < options.num_layers) data = dropout(data, options.dropout, is_training());
  }
  Tensors results;
  for (const Tensors& parts : last) {
    results.push_back(Rows(cat(parts, 0), 1, input.unsorted_indices));
  }
  PackedSequence output = input;
  output.data = data;
  return {output, results};
}

}  // namespace hammock::nn
