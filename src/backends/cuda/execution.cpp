#include "backends/cuda/execution.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "backends/cuda/arrangement.h"
#include "backends/cuda/driver/device_data.h"

namespace hammock::cuda {
namespace {

using lazy::BackendDataPtr;

BlockPtr BlockOf(std::span<const BackendDataPtr> arguments, int i) {
  return static_cast<const DeviceData&>(*arguments[i]).block();
}

/// The failures of earlier runs that a run depends on, and its own; see Note [Guarded kernels].
struct Failures {
  std::vector<std::shared_ptr<const RunWords>> earlier;  // runs that may have failed, each once
  bool known = true;                    // no argument comes from another run that may have failed
  Checks::Mask checked_by = 0;          // streams whose checks will tell of the arguments
  std::shared_ptr<const RunWords> own;  // the run has ops that may fail, or several before it
  std::vector<Address> words;           // of `earlier`

  Failures(DeviceState& state, const Program& program, std::span<const BackendDataPtr> arguments) {
    for (const BackendDataPtr& argument : arguments) {
      if (argument->IsReady() && !argument->error()) [[likely]]
        continue;
      Add(static_cast<const DeviceData&>(*argument));
    }
    known = known && earlier.size() <= RunFaults::kMost;
    if (program.fault_count() > 0 || (known && earlier.size() > 1)) {
      own = state.faults.Take(program.fault_count());
    }
  }

  bool may_fail() const { return own || !known || !earlier.empty(); }
  /// The words that tell whether the run has failed; null if it cannot, or if there are none.
  std::shared_ptr<const RunWords> outcome() const {
    if (!known) return nullptr;
    return own || earlier.empty() ? own : earlier[0];
  }
  RunFaults ForRun(bool donates) const {
    if (own) {
      return {reinterpret_cast<Address>(own->faults), own->failed,
              known ? std::span<const Address>(words) : std::span<const Address>()};
    }
    return donates && !words.empty() ? RunFaults{0, words[0], words} : RunFaults();
  }

 private:
  void Add(const DeviceData& pending) {
    std::shared_ptr<const RunWords> run = pending.words();
    checked_by |= pending.checked_by();
    if (!run) known = false;
    if (run && std::find(earlier.begin(), earlier.end(), run) == earlier.end()) {
      words.push_back(run->failed);
      earlier.push_back(std::move(run));
    }
  }
};

/// The waits and notes of a run that other streams make necessary; see Note [Streams]. Nothing if
/// there is one stream.
class OtherStreams {
 public:
  /// The run comes after the work that made its arguments.
  OtherStreams(Machine& machine, std::span<const BackendDataPtr> arguments) : machine_(machine) {
    const int mine = machine.Stream();
    alone_ = machine.Streams() == 1;
    if (alone_) [[likely]]
      return;
    std::array<const Event*, kMostStreams> last = {};
    for (const BackendDataPtr& argument : arguments) {
      auto [block, event] = static_cast<const DeviceData&>(*argument).Look();
      if (event && event->stream != mine) {
        const Event*& latest = last[event->stream];
        if (!latest || latest->number < event->number) latest = event;
      }
      if (block && block->uses.home() != mine) visited_.push_back(block);
    }
    for (const Event* event : last) {
      if (event) machine.ComeAfter(*event);
    }
  }
  /// The run comes after all uses of memory that it overwrites. Called right before it, so that
  /// the event after it comes after this too.
  void TakeOver(Block& block) const {
    if (!alone_) block.uses.TakeOver(machine_);
  }
  void NoteUses(const Event& event, const Failures& failures) const {
    for (Block* block : visited_) block->uses.Note(event);
    for (const auto& words : failures.earlier) words->uses.Note(event);
  }

 private:
  Machine& machine_;
  bool alone_ = true;            // so far only one stream exists
  std::vector<Block*> visited_;  // arguments whose home is another stream
};

/// An event after a run that was launched in part and uses memory that is given back now. Null if
/// the machine is lost.
std::shared_ptr<Event> RecordAfterFailure(DeviceState& state) {
  try {
    return state.machine->RecordEvent();
  } catch (const Error&) {
    return nullptr;
  }
}

/// Sets results ready, or to the error of an op that failed, when the run has ended.
void CheckLater(DeviceState& state, NotedRun run, std::shared_ptr<const RunWords> words,
                std::shared_ptr<Event> event, std::vector<BackendDataPtr> results,
                std::shared_ptr<const FailureDump> dump) {
  const int stream = event->stream;
  state.checks.Push(
      stream, [&state, run = std::move(run), words = std::move(words), event = std::move(event),
               results = std::move(results), dump = std::move(dump)] {
        std::shared_ptr<const Error> failure;
        try {
          state.Guarded(run, [&] {
            state.machine->WaitFor(*event);
            run.program->CheckFaults(words->faults);
          });
        } catch (const Error& error) {
          failure = error.Clone();
          if (dump) dump->Write(error);
        }
        for (const BackendDataPtr& result : results) {
          if (failure) {
            result->SetError(failure);
          } else {
            result->SetReady();
          }
        }
      });
}

class Execution {
 public:
  Execution(DeviceState& state, const std::shared_ptr<const Program>& program,
            const ExecutionRequest& request)
      : state_(state),
        running_(program),
        program_(*program),
        request_(request),
        arguments_(request.arguments),
        others_(lazy::DerivedBytes(request.device)) {}

  std::vector<BackendDataPtr> Run(std::shared_ptr<const FailureDump> dump) {
    const int slots = FindInputs();
    for (const SliceStart& start : program_.starts()) {
      program_.CheckStart(start, NumberOf(arguments_[start.input]));
    }
    if (program_.has_collectives()) {
      // See CheckBeforeExchange.
      for (const BackendDataPtr& argument : arguments_) argument->WaitReady();
    }
    const Failures failures(state_, program_, arguments_);
    TakeOutputs(failures);
    const BlockPtr arena = TakeArena(slots);
    std::shared_ptr<Event> event = Launch(arena ? arena->address : 0, failures);
    state_.NoteRun(*event, {running_, request_.run.location});
    std::vector<BackendDataPtr> results = ResultsOf(failures, event);
    if (!failures.may_fail()) GiveUpDonated();
    if (program_.fault_count() > 0) {
      CheckLater(state_, {running_, request_.run.location}, failures.own, std::move(event), results,
                 std::move(dump));
    }
    return results;
  }

 private:
  /// Returns how many numbers are a part of the run's own memory.
  int FindInputs() {
    const size_t count = request_.computation.parameter_shapes().size();
    in_.reserve(count);
    for (const BackendDataPtr& argument : arguments_.first(std::min(arguments_.size(), count))) {
      const auto& data = static_cast<const DeviceData&>(*argument);
      if (data.number()) numbers_.push_back({in_.size(), *data.number()});
      in_.push_back(data.address());
    }
    const int slots = program_.numbers().AssignSlots(numbers_);
    for (const VaryingNumbers::Number& number : numbers_) {
      if (number.slot < 0) in_[number.argument] = UploadNumber(arguments_[number.argument]);
    }
    return slots;
  }

  /// An integer; one that the device computes is waited for.
  int64_t NumberOf(const BackendDataPtr& data) {
    const auto& held = static_cast<const DeviceData&>(*data);
    if (held.number() && data->shape().dtype() == DType::kI64) {
      int64_t value = 0;
      std::memcpy(&value, held.number()->data(), sizeof value);
      return value;
    }
    data->WaitReady();
    return state_.Download(held).at(0).ToInt();
  }

  /// Where data is. A number that has no memory yet gets some.
  Address UploadNumber(const BackendDataPtr& data) {
    auto& held = static_cast<DeviceData&>(*data);
    if (!held.number() || held.address() != 0) return held.address();
    const int64_t bytes = data->shape().bytes();
    BlockPtr block = state_.Take(bytes, "upload", others_);
    state_.Upload(block->address, held.number()->data(), bytes);
    held.SetIfNone(std::move(block), state_.machine->RecordEvent());
    return held.address();
  }

  void TakeOutputs(const Failures& failures) {
    taken_ = TakenArguments(failures);
    out_.reserve(program_.outputs().size());
    outputs_.reserve(program_.outputs().size());
    for (size_t i = 0; i < program_.outputs().size(); ++i) {
      const compiler::OutputSource& source = program_.outputs()[i];
      BlockPtr block;
      if (source.input >= 0) {
        UploadNumber(arguments_[source.input]);
        block = BlockOf(arguments_, source.input);
        block->Share();
      } else if (source.same >= 0) {
        block = outputs_[source.same];
        block->Share();
      } else if (taken_[i] >= 0) {
        block = BlockOf(arguments_, taken_[i]);
        // Steps queued behind find it held by the argument and the result, and may write it too.
        block->EndSharing();
      } else {
        block = state_.Take(request_.computation.result_shapes()[i].bytes(), "output", others_);
      }
      out_.push_back(block->address);
      outputs_.push_back(std::move(block));
    }
  }

  /// By output: the argument whose memory it takes, or -1. No other value may lie there.
  std::vector<int> TakenArguments(const Failures& failures) const {
    std::vector<bool> donated = request_.run.donated;
    donated.resize(failures.known ? std::min(donated.size(), arguments_.size()) : 0);
    for (size_t i = 0; i < donated.size(); ++i) {
      if (!donated[i]) continue;
      BlockPtr block = BlockOf(arguments_, static_cast<int>(i));
      donated[i] = block && !block->is_borrowed() &&
                   (!block->is_shared() || block.use_count() == 2);  // its data's, and this one
    }
    return program_.donations(failures.may_fail()).Match(donated);
  }

  /// Memory for values on the way, and behind them the numbers that have slots; null if there is
  /// nothing to hold.
  BlockPtr TakeArena(int slots) {
    int64_t bytes = program_.plan().arena_bytes;
    const int64_t numbers_at = (bytes + 255) / 256 * 256;
    if (slots > 0) bytes = numbers_at + slots * static_cast<int64_t>(sizeof(NumberBytes));
    if (bytes == 0) return nullptr;
    BlockPtr arena = state_.Take(bytes, "values on the way", others_);
    if (slots > 0) UploadNumbers(arena->address + static_cast<Address>(numbers_at), slots);
    return arena;
  }

  /// Uploads the numbers that have slots, and lets their arguments point there.
  void UploadNumbers(Address to, int slots) {
    std::vector<NumberBytes> bytes(static_cast<size_t>(slots));
    for (const VaryingNumbers::Number& number : numbers_) {
      if (number.slot < 0) continue;
      bytes[number.slot] = number.value;
      in_[number.argument] = to + static_cast<Address>(number.slot) * sizeof(NumberBytes);
    }
    state_.machine->Upload(to, bytes.data(),
                           static_cast<int64_t>(bytes.size() * sizeof(NumberBytes)));
  }

  /// Returns the event after the run.
  std::shared_ptr<Event> Launch(Address arena, const Failures& failures) {
    const bool donates = std::any_of(taken_.begin(), taken_.end(), [](int i) { return i >= 0; });
    const OtherStreams other_streams(*state_.machine, arguments_);
    try {
      for (size_t i = 0; i < outputs_.size(); ++i) {
        if (taken_[i] >= 0) other_streams.TakeOver(*outputs_[i]);
      }
      program_.Run(in_, out_, arena, failures.ForRun(donates), request_.run.profile);
    } catch (...) {
      if (auto event = RecordAfterFailure(state_)) other_streams.NoteUses(*event, failures);
      throw;
    }
    std::shared_ptr<Event> event = state_.machine->RecordEvent();
    other_streams.NoteUses(*event, failures);
    return event;
  }

  std::vector<BackendDataPtr> ResultsOf(const Failures& failures,
                                        const std::shared_ptr<Event>& event) {
    const bool checks = program_.fault_count() > 0;
    const Checks::Mask checked_by =
        failures.checked_by | (checks ? Checks::MaskOf(event->stream) : 0);
    std::vector<BackendDataPtr> results;
    results.reserve(outputs_.size());
    for (size_t i = 0; i < outputs_.size(); ++i) {
      results.push_back(std::make_shared<DeviceData>(
          request_.device, request_.computation.result_shapes()[i], state_.checks,
          std::move(outputs_[i]), event, failures.outcome(), checked_by));
      if (checks) results.back()->MakePending();
    }
    return results;
  }

  /// Not of a run that may have failed, which must keep its inputs, to be repeated.
  void GiveUpDonated() {
    const std::vector<bool>& donated = request_.run.donated;
    for (size_t i = 0; i < donated.size() && i < arguments_.size(); ++i) {
      if (donated[i]) static_cast<DeviceData&>(*arguments_[i]).Set(nullptr, nullptr);
    }
  }

  DeviceState& state_;
  const std::shared_ptr<const Program>& running_;
  const Program& program_;
  const ExecutionRequest& request_;
  const std::span<const BackendDataPtr> arguments_;
  const int64_t others_;  // bytes of derived data on the device
  std::vector<VaryingNumbers::Number> numbers_;
  std::vector<Address> in_, out_;
  std::vector<int> taken_;  // by output: the argument whose memory it takes, or -1
  std::vector<BlockPtr> outputs_;
};

}  // namespace

std::vector<BackendDataPtr> Execute(DeviceState& state,
                                    const std::shared_ptr<const Program>& program,
                                    const ExecutionRequest& request,
                                    std::shared_ptr<const FailureDump> dump) {
  return Execution(state, program, request).Run(std::move(dump));
}

}  // namespace hammock::cuda
