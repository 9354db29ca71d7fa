#include "backends/cpu/calls/fused_matmul.h"

#include <algorithm>

#include "compiler/facts/fusion_facts.h"

namespace hammock::cpu {

using compiler::Access;
using compiler::AccessMap;
using compiler::BufferId;
using compiler::Launch;

/// The kernel on parts of the result, in one run.
class FusedMatMul::Parts : public Epilogue {
 public:
  Parts(const FusedMatMul& fused, std::span<const char* const> in, std::span<char* const> out)
      : fused_(fused), in_(in), out_(out) {}

  /// A part is taken apart until it is one range of the kernel's rows and one of its columns.
  void Run(const FinishedPart& part, std::byte* scratch) const override {
    const Launch& launch = fused_.launch_;
    for (int64_t row = part.row; row < part.row + part.rows;) {
      int64_t rows = std::min(launch.rows - row % launch.rows, part.row + part.rows - row);
      for (int64_t column = part.column; column < part.column + part.columns;) {
        int64_t columns =
            std::min(launch.columns - column % launch.columns, part.column + part.columns - column);
        RunRange(part, {row, rows, column, columns}, scratch);
        column += columns;
      }
      row += rows;
    }
  }

  ChannelEpilogue OfChannels() const override {
    const ChannelEpilogueForm& form = *fused_.of_channels_;
    ChannelEpilogue made = {.low = form.low, .high = form.high};
    made.bias = reinterpret_cast<const float*>(in_[fused_.sources_[form.bias].index]) +
                fused_.launch_.maps[form.bias].offset;
    if (form.other >= 0) {
      made.other = reinterpret_cast<const float*>(in_[fused_.sources_[form.other].index]);
    }
    made.out = reinterpret_cast<float*>(out_[fused_.sources_[form.out].index]);
    return made;
  }

 private:
  struct Range {
    int64_t row, rows;
    int64_t column, columns;
  };

  /// The element of an access at the first row and column of a range.
  int64_t ElementOf(const AccessMap& map, const Range& range) const {
    const Launch& launch = fused_.launch_;
    int64_t element =
        map.offset + range.row % launch.rows * map.row + range.column % launch.columns * map.column;
    int64_t rest = range.column / launch.columns;
    for (size_t d = launch.outer.size(); d-- > 0;) {
      if (d + 1 == fused_.row_loops_) rest = range.row / launch.rows;
      element += rest % launch.outer[d] * map.outer[d];
      rest /= launch.outer[d];
    }
    return element;
  }

  void RunRange(const FinishedPart& part, const Range& range, std::byte* scratch) const {
    const Launch& launch = fused_.launch_;
    constexpr size_t kInline = 32;
    const size_t accesses = launch.maps.size();
    char* inline_pointers[kInline];
    int64_t inline_strides[kInline];
    std::vector<char*> more_pointers;
    std::vector<int64_t> more_strides;
    char** pointers = inline_pointers;
    int64_t* strides = inline_strides;
    if (accesses > kInline) {
      more_pointers.resize(accesses);
      more_strides.resize(accesses);
      pointers = more_pointers.data();
      strides = more_strides.data();
    }
    for (size_t i = 0; i < accesses; ++i) {
      const Source& source = fused_.sources_[i];
      strides[i] = launch.maps[i].row;
      int64_t offset = ElementOf(launch.maps[i], range) * source.element_bytes;
      switch (source.where) {
        case Where::kMatMul:
          strides[i] = part.stride;
          offset = (range.row - part.row) * part.stride + range.column - part.column;
          pointers[i] = reinterpret_cast<char*>(part.data) + offset * source.element_bytes;
          break;
        case Where::kOperand:
          pointers[i] = const_cast<char*>(in_[source.index]) + offset;
          break;
        case Where::kResult:
          pointers[i] = out_[source.index] + offset;
          break;
        case Where::kScratch:
          pointers[i] = reinterpret_cast<char*>(scratch) + source.scratch_at;
          break;
        case Where::kNumber:
          pointers[i] = reinterpret_cast<char*>(offset);
          break;
      }
    }
    KernelArgs args;
    args.rows = range.rows;
    args.columns = range.columns;
    args.pointers = pointers;
    args.row_strides = strides;
    args.column_strides = fused_.column_strides_.data();
    args.lane_functions = LaneFunctionTable();
    fused_.code_->Run(args);
  }

  const FusedMatMul& fused_;
  std::span<const char* const> in_;
  std::span<char* const> out_;
};

FusedMatMul::FusedMatMul(const Graph& graph, const compiler::Schedule& schedule,
                         const compiler::Command& command, const Launch& launch,
                         std::shared_ptr<KernelCode> code, const Graph& sized, NodeId node)
    : launch_(launch), row_loops_(command.row_loops), code_(std::move(code)) {
  for (GraphValue input : graph[command.node].inputs) {
    operands_.push_back(input.node ? schedule.BufferOf(compiler::StorageOf(graph, input))
                                   : BufferId());
  }
  operands_.emplace_back();  // the packed weight, if there is one
  const BufferId matmul = schedule.BufferOf({command.node, 0});
  auto stored = std::find(command.writes.begin(), command.writes.end(), matmul);
  if (stored != command.writes.end()) result_ = static_cast<int>(stored - command.writes.begin());
  sources_.reserve(launch_.maps.size());
  column_strides_.reserve(launch_.maps.size());
  for (size_t i = 0; i < launch_.maps.size(); ++i) {
    sources_.push_back(SourceOf(i, matmul, command));
    column_strides_.push_back(launch_.maps[i].column);
  }
  of_channels_ = FindChannelEpilogue(launch_, matmul);
  EpilogueSpec epilogue;
  epilogue.wanted = true;
  epilogue.whole_rows = launch_.kernel->stages > 1 || launch_.kernel->HasReduction();
  epilogue.stores = result_ >= 0;
  epilogue.scratch_bytes = scratch_bytes_;
  if (of_channels_ && !epilogue.stores) epilogue.bias_size = launch_.columns;
  matmul_ = MakeMatMulCall(sized, node, epilogue);
}

FusedMatMul::Source FusedMatMul::SourceOf(size_t access, BufferId matmul,
                                          const compiler::Command& command) {
  const Access& about = launch_.kernel->accesses[access];
  const BufferId buffer = launch_.maps[access].buffer;
  Source source;
  if (about.kind == Access::Kind::kIndex || about.kind == Access::Kind::kConstant) return source;
  source.element_bytes = InfoOf(about.dtype).bits / 8;
  auto written = std::find(command.writes.begin(), command.writes.end(), buffer);
  if (about.kind == Access::Kind::kScratch) {
    source.where = Where::kScratch;
    source.scratch_at = scratch_bytes_;
    scratch_bytes_ += (launch_.columns * source.element_bytes + 127) / 64 * 64;
  } else if (buffer == matmul) {
    source.where = Where::kMatMul;
  } else if (written != command.writes.end()) {
    source.where = Where::kResult;
    source.index = static_cast<size_t>(written - command.writes.begin());
  } else {
    source.where = Where::kOperand;
    source.index = operands_.size();
    operands_.push_back(buffer);
  }
  return source;
}

void FusedMatMul::Run(std::span<const char* const> in, std::span<char* const> out,
                      char* scratch) const {
  code_->CountRun();
  Parts parts(*this, in, out);
  matmul_->Run(in, result_ < 0 ? nullptr : out[result_], scratch, &parts);
}

}  // namespace hammock::cpu
