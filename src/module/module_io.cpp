#include "module/module_io.h"

#include <map>
#include <stdexcept>
#include <unordered_map>

#include "base/throw.h"
#include "hammock/autograd.h"
#include "hammock/executor.h"
#include "hammock/ir/graph.h"
#include "hammock/ops.h"
#include "module/module_access.h"
#include "module/value_bytes.h"
#include "trace/tensor_impl.h"

namespace hammock {
namespace {

constexpr int kMaxDepth = 64;

// Flags of a tensor.
constexpr uint8_t kRequiresGrad = 1, kNotPersistent = 2;

enum class BodyTag : uint8_t { kGraph = 0, kForward = 1, kOfKind = 2 };
enum class CaptureTag : uint8_t { kName = 0, kConstant = 1, kRandom = 2 };

class ModuleWriter {
 public:
  std::string Write(const Module& module) {
    WriteModule(module, 0);
    return out_.Take();
  }
  const std::vector<Tensor>& tensors() const { return tensors_; }

 private:
  void WriteModule(const Module& module, int depth) {
    if (depth > kMaxDepth) {
      Throw(ErrorCode::kValue, "save: modules are nested deeper than {}", kMaxDepth);
    }
    auto [seen, is_new] = modules_.try_emplace(&module, modules_.size());
    out_.Count(seen->second);  // a number given before refers to that module
    if (!is_new) return;
    auto [kind, state] = ModuleAccess::SavedState(module);
    out_.Text(module.class_name());
    out_.Text(kind);
    out_.Byte(module.is_training());
    WriteTensors(module, module.named_parameters(false, false));
    WriteTensors(module, module.named_buffers(false, false));
    Value(kind.empty() ? Any(module.attributes()) : state);
    // The graphs of the modules above a submodule contain the ops of its code.
    std::vector<const Method*> methods;
    for (const Method& method : module.methods()) {
      bool is_code = method.code && kind.empty();
      if (!is_code || depth == 0) methods.push_back(&method);
    }
    out_.Count(methods.size());
    for (const Method* method : methods) WriteMethod(module, *method, !kind.empty());
    out_.Count(module.named_children().size());
    for (const auto& [name, child] : module.named_children()) {
      out_.Text(name);
      WriteModule(*child, depth + 1);
    }
  }

  void WriteTensors(const Module& module, const NamedTensors& tensors) {
    out_.Count(tensors.size());
    for (const auto& [name, tensor] : tensors) {
      out_.Text(name);
      out_.Count(NumberOf(tensor));
      bool persistent = ModuleAccess::IsPersistent(module, name);
      out_.Byte((tensor.requires_grad() ? kRequiresGrad : 0) | (persistent ? 0 : kNotPersistent));
    }
  }

  void WriteMethod(const Module& module, const Method& method, bool has_kind) {
    out_.Text(method.schema.to_string());
    if (!method.forwards_to.empty()) {
      Tag(BodyTag::kForward);
      return out_.Text(method.forwards_to);
    }
    // A kind makes its code again; a graph beside that code says what it stands for.
    Tag(method.code && has_kind ? BodyTag::kOfKind : BodyTag::kGraph);
    if (method.code && has_kind) out_.Byte(method.body != nullptr);
    if (method.body) return WriteBody(*method.body);
    if (method.code && has_kind) return;
    Throw(ErrorCode::kValue,
          "save: method '{}' of {} is C++ code, which no archive can hold; trace it first",
          method.schema.name(), module.class_name());
  }

  void WriteBody(const GraphBody& body) {
    out_.Text(Serialize(*body.graph));
    out_.Text(body.argument_form);
    out_.Text(body.result_form);
    out_.Count(body.captures.size());
    for (const Capture& capture : body.captures) {
      if (capture.random_blocks > 0) {
        Tag(CaptureTag::kRandom);
        out_.Count(capture.random_blocks);
      } else if (!capture.name.empty()) {
        Tag(CaptureTag::kName);
        out_.Text(capture.name);
      } else {
        Tag(CaptureTag::kConstant);
        out_.Count(NumberOf(capture.constant));
      }
    }
    out_.Count(body.writes.size());
    for (int input : body.writes) out_.Count(static_cast<uint64_t>(input));
  }

  void Value(const Any& value) {
    WriteAny(out_, value, [&](const Tensor& tensor) { return NumberOf(tensor); });
  }

  uint64_t NumberOf(const Tensor& tensor) {
    auto [entry, added] = numbers_.try_emplace(tensor.impl(), tensors_.size());
    if (added) tensors_.push_back(tensor);
    return entry->second;
  }

  template <class T>
  void Tag(T tag) {
    out_.Byte(static_cast<uint8_t>(tag));
  }

  ByteWriter out_;
  std::unordered_map<const Module*, uint64_t> modules_;
  std::unordered_map<const TensorImpl*, uint64_t> numbers_;
  std::vector<Tensor> tensors_;
};

class ModuleReader {
 public:
  ModuleReader(const std::shared_ptr<const Archive>& archive, const Device& device,
               RestoreFn restore)
      : archive_(archive), in_(archive->what(), archive->Get("module")), restore_(restore) {
    ReadTensors(device);
  }

  ModulePtr Read() {
    ModulePtr module = ReadModule(0);
    in_.ExpectEnd();
    return module;
  }

 private:
  void ReadTensors(const Device& device) {
    ByteReader in(archive_->what(), archive_->Get("tensors"));
    for (uint64_t count = in.Count(); count > 0; --count) {
      Shape type = ReadType(in);
      std::string_view bytes = archive_->Get(fmt::format("data/{}", tensors_.size()));
      if (bytes.size() != static_cast<size_t>(type.bytes())) {
        in.Fail("tensor {} of {} has {} bytes", tensors_.size(), type.to_string(), bytes.size());
      }
      BorrowedMemory mapped([archive = archive_] { (void)archive; });  // read-only
      tensors_.push_back(
          from_blob(bytes.data(), type.sizes(), type.dtype(), std::move(mapped), device));
    }
    in.ExpectEnd();
  }

  static Shape ReadType(ByteReader& in) {
    uint8_t dtype = in.Byte();
    if (dtype >= kNumDTypes) {
      in.Fail("unknown dtype {}", dtype);
    }
    Dims sizes;
    for (uint64_t rank = in.Bounded(kMaxRank + 1, "a rank"); rank > 0; --rank) {
      sizes.push_back(in.Signed());
    }
    CheckSizes("tensor", sizes);
    return Shape(static_cast<DType>(dtype), sizes);
  }

  ModulePtr ReadModule(int depth) {
    if (depth > kMaxDepth) in_.Fail("modules are nested deeper than {}", kMaxDepth);
    uint64_t number = in_.Bounded(modules_.size() + 1, "a module");
    if (number < modules_.size()) {
      if (!modules_[number]) in_.Fail("a module that contains itself");
      return modules_[number];
    }
    modules_.push_back(nullptr);
    SavedModule saved;
    saved.class_name = in_.Text();
    saved.kind = in_.Text();
    bool training = in_.Byte() != 0;
    std::vector<SavedTensor> parameters = ReadNamedTensors(), buffers = ReadNamedTensors();
    saved.state = ReadAny(in_, [&](uint64_t tensor) { return TensorAt(tensor); });
    for (uint64_t count = in_.Count(); count > 0; --count) saved.methods.push_back(ReadMethod());
    ModulePtr module = MakeModule(saved);
    for (const SavedTensor& saved_tensor : parameters) {
      module->register_parameter(saved_tensor.name, saved_tensor.tensor,
                                 saved_tensor.flags & kRequiresGrad);
    }
    for (const SavedTensor& saved_tensor : buffers) {
      module->register_buffer(saved_tensor.name, saved_tensor.tensor,
                              !(saved_tensor.flags & kNotPersistent));
    }
    for (uint64_t count = in_.Count(); count > 0; --count) {
      std::string name = in_.Text();
      module->register_module(name, ReadModule(depth + 1));
    }
    CheckMethods(*module);
    ModuleAccess::SetTraining(*module, training);
    modules_[number] = module;
    return module;
  }

  ModulePtr MakeModule(const SavedModule& saved) {
    if (!saved.kind.empty()) return restore_(saved);
    auto module = std::make_shared<Module>(saved.class_name);
    for (const auto& [name, value] : saved.state.ToDict()) module->set_attribute(name, value);
    for (const Method& method : saved.methods) {
      if (!method.body && method.forwards_to.empty()) {
        in_.Fail("method '{}' has no body", method.schema.name());
      }
      module->define(method);
    }
    return module;
  }

  /// Checks that the submodules and tensors that methods refer to exist and have the right types.
  void CheckMethods(const Module& module) {
    for (const Method& method : module.methods()) {
      if (!method.forwards_to.empty()) {
        module.get_submodule(method.forwards_to)->method(method.schema.name());
      }
      if (!method.body) continue;
      const GraphBody& body = *method.body;
      for (size_t i = 0; i < body.captures.size(); ++i) {
        const Capture& capture = body.captures[i];
        if (capture.random_blocks > 0) continue;
        Tensor tensor = capture.name.empty() ? capture.constant : module.get_tensor(capture.name);
        const Shape& type = (*body.graph)[body.graph->inputs()[body.num_arguments() + i]].type();
        if (tensor.shape() == type) continue;
        in_.Fail("method '{}' captures {} where its graph has {}", method.schema.name(),
                 tensor.shape().to_string(), type.to_string());
      }
    }
  }

  Method ReadMethod() {
    Method method{.schema = FunctionSchema::Parse(in_.Text())};
    uint8_t tag = in_.Byte();
    switch (static_cast<BodyTag>(tag)) {
      case BodyTag::kGraph:
        method.body = ReadBody();
        return method;
      case BodyTag::kForward:
        method.forwards_to = in_.Text();
        return method;
      case BodyTag::kOfKind:
        if (in_.Byte()) method.body = ReadBody();
        return method;
    }
    in_.Fail("unknown kind of body {}", tag);
  }

  std::shared_ptr<const GraphBody> ReadBody() {
    auto body = std::make_shared<GraphBody>();
    body->graph = std::make_shared<const Graph>(DeserializeGraph(in_.Text()));
    body->argument_form = in_.Text();
    body->result_form = in_.Text();
    const size_t inputs = body->graph->inputs().size();
    for (uint64_t count = in_.Count(); count > 0; --count) body->captures.push_back(ReadCapture());
    for (uint64_t count = in_.Count(); count > 0; --count) {
      body->writes.push_back(static_cast<int>(in_.Bounded(inputs, "an input")));
    }
    if (body->captures.size() > inputs || body->writes.size() > body->graph->outputs().size()) {
      in_.Fail("a method whose graph has too few inputs or outputs");
    }
    CheckForm(body->argument_form, body->num_arguments(), true);
    CheckForm(body->result_form, body->num_results(), false);
    return body;
  }

  /// A form for exactly this many tensors.
  void CheckForm(const std::string& form, size_t tensors, bool is_list) {
    Any value = UnpackTensors(form, std::vector<Tensor>(tensors));
    if (PackTensors(value).tensors.size() != tensors || (is_list && !value.IsList())) {
      in_.Fail("a method whose values do not fit its graph");
    }
  }

  Capture ReadCapture() {
    uint8_t tag = in_.Byte();
    switch (static_cast<CaptureTag>(tag)) {
      case CaptureTag::kName:
        return {.name = in_.Text()};
      case CaptureTag::kConstant:
        return {.constant = TensorAt(in_.Varint())};
      case CaptureTag::kRandom:
        return {.random_blocks = in_.Varint()};
    }
    in_.Fail("unknown kind of capture {}", tag);
  }

  struct SavedTensor {
    std::string name;
    Tensor tensor;
    uint8_t flags;
  };
  std::vector<SavedTensor> ReadNamedTensors() {
    std::vector<SavedTensor> tensors;
    for (uint64_t count = in_.Count(); count > 0; --count) {
      std::string name = in_.Text();
      Tensor tensor = TensorAt(in_.Varint());
      tensors.push_back({std::move(name), tensor, in_.Byte()});
    }
    return tensors;
  }

  Tensor TensorAt(uint64_t number) const {
    if (number >= tensors_.size()) in_.Fail("tensor {} of {}", number, tensors_.size());
    return tensors_[number];
  }

  const std::shared_ptr<const Archive> archive_;
  ByteReader in_;
  const RestoreFn restore_;
  std::vector<Tensor> tensors_;
  std::vector<ModulePtr> modules_;  // null while it is being read
};

void WriteType(ByteWriter& out, const Shape& type) {
  out.Byte(static_cast<uint8_t>(type.dtype()));
  out.Count(static_cast<uint64_t>(type.rank()));
  for (int64_t size : type.sizes()) out.Signed(size);
}

}  // namespace

ArchiveWriter WriteModule(const Module& module) {
  NoGradGuard no_grad;
  ModuleWriter writer;
  std::string tree = writer.Write(module);
  std::vector<HostTensor> values = LazyGraphExecutor::Get()->GetTensors(writer.tensors());
  ArchiveWriter archive;
  ByteWriter types;
  types.Count(values.size());
  for (const HostTensor& value : values) WriteType(types, value.shape());
  archive.Add("module", std::move(tree));
  archive.Add("tensors", types.Take());
  for (size_t i = 0; i < values.size(); ++i) {
    archive.AddBorrowed(fmt::format("data/{}", i), {static_cast<const char*>(values[i].data()),
                                                    static_cast<size_t>(values[i].bytes())});
    archive.Keep(values[i].storage());
  }
  return archive;
}

ModulePtr ReadModule(const std::shared_ptr<const Archive>& archive, const Device& device,
                     RestoreFn restore) {
  try {
    return ModuleReader(archive, device, restore).Read();
  } catch (const ValueError& error) {
    if (error.code() == ErrorCode::kParse) throw;
    Throw(ErrorCode::kParse, "{}: {}", archive->what(), error.message());
  } catch (const TypeError& error) {
    Throw(ErrorCode::kParse, "{}: {}", archive->what(), error.message());
  } catch (const std::out_of_range&) {
    Throw(ErrorCode::kParse, "{}: a saved state has too few parts", archive->what());
  }
}

void save_module(const Module& module, const std::string& path, Location at) {
  LocationScope scope(at);
  WriteModule(module).Save(path);
}

}  // namespace hammock
