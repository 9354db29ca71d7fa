#pragma once
/// Op records. An OpDef is the one place that holds what is known of an op; everything else is
/// derived.
///
/// Three kinds share the type:
///  - a primitive makes a node that every backend runs (or leaves to the fallback device);
///  - a composite makes a node too and carries its expansion into other ops, written once in Tensor
///  ops;
///  - a function makes no node of its own: views, in-place forms, creation, argument sugar.
///
/// Records are `constinit` globals, listed in one table (src/ops/primitives/table.cpp) that the
/// first use registers; libraries out of tree add theirs with an OpRegistrar.

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hammock/export.h"
#include "hammock/ir/any.h"
#include "hammock/ir/attr.h"
#include "hammock/ir/function.h"
#include "hammock/ir/hash.h"
#include "hammock/ir/scalar_fn.h"
#include "hammock/ir/schema.h"
#include "hammock/ir/shape.h"
#include "hammock/location.h"

namespace hammock {

struct OpDef;
struct GraphNode;
class Tensor;

/// The effect of an op: CSE, dead-code removal and reordering look at it.
enum class Effect : uint8_t { kPure, kRandom, kOrdered };

/// How an elementwise op chooses the dtype its operands are cast to, and its result's.
enum class DTypeRule : uint8_t {
  kNone,       ///< not elementwise: `infer` says
  kPromote,    ///< PyTorch's promotion of all operands; the result has that dtype
  kFloat,      ///< as kPromote, but integers become the default float
  kCompare,    ///< computed in the promoted dtype, the result is bool
  kLogical,    ///< operands are read as truth values, the result is bool
  kInteger,    ///< as kPromote; floats are refused
  kFloatTest,  ///< one operand of any dtype, the result is bool (isnan)
  kSelect,     ///< first operand is bool, the others as kPromote
};

/// The dtype that the floats among an op's operands are cast to in the scope of an AutocastGuard;
/// f64 stays.
enum class AutocastRule : uint8_t {
  kNone,    ///< nothing: the op takes what comes
  kLow,     ///< the guard's dtype
  kF32,     ///< f32
  kWidest,  ///< the widest dtype among them
};

/// The arguments of `infer`: operand types, attributes by position, and where to put the result
/// types.
struct InferCall {
  const OpDef& op;
  std::span<const Shape* const> in;  ///< null for an absent optional operand
  std::span<const Attr> attrs;
  std::vector<Shape>& out;
};
using InferFn = void (*)(const InferCall&);

/// The arguments of an expansion. Operands are symbolic tensors while a graph is lowered.
struct ExpandCall {
  const OpDef& op;
  std::span<const Tensor> in;  ///< an undefined Tensor for an absent optional operand
  std::span<const Attr> attrs;
  std::span<const Shape> out;  ///< the types that the results must have
};
using ExpandFn = std::vector<Tensor> (*)(const ExpandCall&);

/// The arguments of a gradient. It is written in Tensor ops and also runs on symbolic tensors,
/// which finds the operands and results whose values it reads: only those are kept for the backward
/// pass, of the others it sees the type alone.
struct VjpCall {
  const OpDef& op;
  std::span<const Tensor> in;  ///< an undefined Tensor for an absent optional operand
  std::span<const Tensor> out;
  std::span<const Attr> attrs;
  /// One per result; zeros where none arrived, undefined for results that are not floats.
  std::span<const Tensor> grads;
  std::span<const uint8_t> needed;  ///< of each operand, whether its gradient is wanted

  HAMMOCK_API const Tensor& grad() const;
  bool needs(size_t operand) const { return needed[operand] != 0; }
};
/// One gradient per operand; undefined stands for zero. Those of elementwise ops are summed and
/// cast to the operand's type by the caller.
using VjpFn = std::vector<Tensor> (*)(const VjpCall&);

/// The facts that the cost of a node is computed from.
struct CostCall {
  const OpDef& op;
  std::span<const Shape* const> in;  ///< null for an absent optional operand
  std::span<const Attr> attrs;
  std::span<const Shape> out;
};
using CostFn = int64_t (*)(const CostCall&);

/// Brings a node that was saved when its record had `version` to the present one: attributes,
/// operands. The result is verified.
using UpgradeFn = void (*)(int version, GraphNode& node);

/// The boxed call: one value per schema argument, defaults filled in.
using BoxedFn = Any (*)(std::span<const Any> args);

/// Where conformance tests sample an elementwise op's operands.
struct Domain {
  double lo = -3.0;
  double hi = 3.0;
};

/// One sample call for conformance and gradient tests of an op that is not elementwise, as graph
/// text of its operands: "f32[2,3] i64[2]" and attributes "{dim=1}".
struct Sample {
  const char* operands = nullptr;
  const char* attrs = "";
};

/// Derived from a record when it is registered.
struct HAMMOCK_API OpInfo {
  FunctionSchema schema;
  uint32_t id = 0;                  ///< dense, by order of registration; never stored
  Hash128 seed;                     ///< hash of name and version
  std::string name;                 ///< "add.alpha"
  std::vector<int> operand_args;    ///< schema indices that are operands, in order
  std::vector<int> attribute_args;  ///< schema indices that are attributes, in order
  bool variadic = false;            ///< the last operand argument is a Tensor[]
  int AttributeIndex(std::string_view name) const;  ///< -1 if there is none
  const std::string& AttributeName(int index) const;
  bool IsSize(int attribute) const;  ///< whether its type is SymInt or SymInt[]
};

struct OpDef {
  const char* schema;
  const char* doc = "";
  int version = 1;
  UpgradeFn upgrade = nullptr;  ///< needed from version 2 on, to read what was saved before
  Effect effect = Effect::kPure;
  /// Comma-separated Scalar arguments that are part of the key instead of being lifted to operands.
  const char* baked = "";
  BoxedFn call = nullptr;
  AutocastRule autocast = AutocastRule::kNone;

  // Nodes only.
  InferFn infer = nullptr;            ///< not needed where `rule` says everything
  DTypeRule rule = DTypeRule::kNone;  ///< elementwise ops
  /// Results have the operands' common sizes and lie in memory as they do; with a rule always.
  bool keeps_layout = false;
  ScalarFn scalar = ScalarFn::kNone;  ///< elementwise primitives
  ExpandFn expand = nullptr;          ///< composites
  /// The op where operands or results are complex, in ops on their parts (`real`, `imag`,
  /// `complex`; split_complex.h). A primitive without one refuses complex operands unless
  /// `takes_complex` says that it runs on them as they are.
  ExpandFn complex = nullptr;
  bool takes_complex = false;
  VjpFn vjp = nullptr;    ///< a composite without one is expanded under grad
  bool can_fail = false;  ///< execution may raise (index checks, custom calls)
  int num_outputs = 1;
  /// Arithmetic on elements, in simple operations. Without one it is that of a composite's
  /// expansion, by ScalarFnInfo::cost that of an elementwise primitive, and 0 for other ops.
  CostFn flops = nullptr;
  /// Bytes read and written; without one, all operands and results.
  CostFn bytes = nullptr;

  Domain domain{};
  Sample samples[3] = {};

  /// Set when the record is registered.
  mutable std::atomic<const OpInfo*> registered{nullptr};

  bool IsElementwise() const { return rule != DTypeRule::kNone; }
  bool KeepsLayout() const { return keeps_layout || IsElementwise(); }
  bool IsNode() const { return infer != nullptr || rule != DTypeRule::kNone; }
  bool IsComposite() const { return expand != nullptr; }
  bool IsPrimitive() const { return IsNode() && !IsComposite(); }
  const OpInfo& info() const {
    const OpInfo* info = registered.load(std::memory_order_acquire);
    return info ? *info : InitInfo();
  }
  const char* name() const { return info().name.c_str(); }

 private:
  HAMMOCK_API const OpInfo& InitInfo() const;
};

/// The process-wide registry. Thread-safe; entries are never removed.
namespace op_registry {
/// Throws ValueError for a second record of the same full name, a schema that does not parse, or a
/// record that contradicts its schema.
HAMMOCK_API void Register(const OpDef& def);
/// By full name ("add", "add.alpha"); null if there is none.
HAMMOCK_API const OpDef* Find(std::string_view full_name);
/// By full name, else ValueError that names the nearest one.
HAMMOCK_API const OpDef& Get(std::string_view full_name);
/// All overloads of a name, in order of registration.
HAMMOCK_API std::vector<const OpDef*> Overloads(std::string_view name);
/// All records, sorted by full name.
HAMMOCK_API std::vector<const OpDef*> All();
}  // namespace op_registry

/// For libraries out of tree: `const hammock::OpRegistrar registrar(kMyOp);` at namespace scope.
class HAMMOCK_API OpRegistrar {
 public:
  explicit OpRegistrar(const OpDef& def) { op_registry::Register(def); }
};

/// A Markdown table of all registered ops: signature, what it does, dtypes, kind, gradient.
HAMMOCK_API std::string DescribeOps();

/// Result types of a node of `op`: the record's inference, or its dtype rule.
HAMMOCK_API std::vector<Shape> InferShapes(const OpDef& op, std::span<const Shape* const> in,
                                           std::span<const Attr> attrs);

/// The dtype that an elementwise op casts its operands to.
HAMMOCK_API DType ComputeDType(const OpDef& op, std::span<const Shape* const> in);

}  // namespace hammock
