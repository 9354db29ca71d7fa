#pragma once
/// How ops are written that take more than a row of the table.

#include <optional>
#include <string>
#include <vector>

#include "onnx/save_writer.h"

namespace hammock::onnx {

/// One node: names of its operands, cast to one dtype where they are elementwise.
struct Written {
  Writer& w;
  NodeId id;
  const GraphNode& node;

  std::string In(size_t i) const { return w.NameOf(node.inputs[i]); }
  const Shape& Type(size_t i) const { return w.graph().TypeOf(node.inputs[i]); }
  std::string As(size_t i, DType dtype) const { return w.CastTo(In(i), Type(i).dtype(), dtype); }
  DType dtype() const { return node.type().dtype(); }
  int64_t Int(std::string_view name) const { return w.FixedInt(id, name); }
  /// A name of i64[1].
  std::string SizeAttr(std::string_view name) const { return w.SizeAttr(id, name); }
  std::vector<int64_t> Ints(std::string_view name) const { return w.FixedInts(id, name); }
};

/// A node with complex operands or results; nothing where it is written as any other. NotSupported
/// where it is not written.
std::optional<std::string> WriteComplex(const Written& n);
std::string ReduceOver(const Written& n, const std::string& op, const std::string& x);
std::string WriteReduce(const Written& n, const char* op);
std::string WriteDot(const Written& n);
std::string WriteConvolution(const Written& n);
std::string WriteQuantize(const Written& n);
std::string WriteIntMatmul(const Written& n);
std::string WriteIntConvolution(const Written& n);
std::string WriteWindow(const Written& n);
std::string WriteStrided(const Written& n);
std::string WriteCut(const Written& n, const std::string& start, int64_t dim);
std::string WriteSkippingNan(const Written& n, const char* op);
std::string WriteBits(const Written& n, const std::string& op);
std::string WriteTruth(const Written& n, const char* op);
std::string WriteScan(const Written& n);
std::string WriteScatter(const Written& n);
std::string WriteUpdate(const Written& n, const std::string& start);
std::vector<std::string> WriteTopK(const Written& n, const std::string& count, bool largest,
                                   bool sorted);
std::vector<std::string> WriteCond(const Written& n);
std::vector<std::string> WriteLoop(const Written& n);
std::vector<std::string> WriteWhile(const Written& n);

}  // namespace hammock::onnx
