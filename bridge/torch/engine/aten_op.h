#pragma once
/// AtenOp: what Hammock does for one aten op. Found once by the op's schema, then called with boxed
/// values, one for each argument of PyTorch's schema. Every door uses this one table.
///
///   const AtenOp& op = AtenOp::Of(node->schema());
///   if (op.known()) Any result = op.Call(values);
///
/// In this order: an adaptor of the op's full name ("aten::view.dtype"), one of its name, the
/// records of that name in Hammock's registry (Note [Matching schemas]), and for ops that write
/// (`add_`, `arange.out`) the op that does not, followed by a copy. Ops of other namespaces than
/// `aten` and `prim` are known by an adaptor of their full name alone.

#include <ATen/core/function_schema.h>
#include <hammock/ir/op_def.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/adaptor.h"
#include "engine/values.h"

namespace hammock_torch {

class AtenOp {
 public:
  /// The same object for the same operator; may be called from any thread.
  static const AtenOp& Of(const c10::FunctionSchema& schema);

  /// Whether there is an adaptor or a record. A known op may still refuse arguments.
  bool known() const { return adaptor_ || !candidates_.empty() || pure_; }
  /// Whether records are tried, not an adaptor.
  bool by_records() const { return !candidates_.empty() || (pure_ && pure_->by_records()); }
  const std::string& name() const { return name_; }  ///< "aten::add.Tensor"
  const c10::FunctionSchema& schema() const { return schema_; }

  /// Records the op on the calling thread. Several results are a tuple. Throws Unsupported where no
  /// form takes the arguments, and Hammock's errors where an op refuses them.
  hammock::Any Call(const std::vector<hammock::Any>& values) const;

 private:
  /// One record and where its arguments come from.
  struct Candidate {
    const hammock::OpDef* record = nullptr;
    std::vector<int> sources;    ///< per argument of the record: index of PyTorch's, or -1: default
    std::vector<int> unmatched;  ///< arguments of PyTorch that must have their default value
    int score = 0;               ///< lower ones are tried first
  };

  explicit AtenOp(const c10::FunctionSchema& schema);
  void FindCandidates(const std::string& name);
  bool SameResults(const hammock::OpDef& record) const;
  std::optional<Candidate> Match(const hammock::OpDef& record) const;
  /// The arguments for a record, or nothing and the reason.
  std::optional<std::vector<hammock::Any>> Bind(const Candidate& candidate,
                                                const std::vector<hammock::Any>& values,
                                                std::string* why_not) const;
  hammock::Any CallAndWrite(const std::vector<hammock::Any>& values) const;

  c10::FunctionSchema schema_;
  std::string name_;
  std::vector<std::string> argument_names_;
  Adaptor adaptor_ = nullptr;
  std::vector<Candidate> candidates_;
  std::vector<std::optional<hammock::Any>> defaults_;  ///< of PyTorch's arguments
  std::unique_ptr<AtenOp> pure_;  ///< of an op that writes: the op without writing
  std::vector<size_t> written_;   ///< its arguments that are written, in the order of the results
};

}  // namespace hammock_torch
