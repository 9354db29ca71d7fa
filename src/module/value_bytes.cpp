#include "module/value_bytes.h"

#include <bit>
#include <complex>

#include "hammock/ir/function.h"
#include "hammock/ir/graph.h"
#include "hammock/module.h"

namespace hammock {
namespace {

using Kind = Any::Kind;

constexpr int kMaxDepth = 64;

/// The byte that is written for each kind of value; numbers keep their meaning.
enum class Tag : uint8_t {
  kNone = 0,
  kFalse = 1,
  kTrue = 2,
  kInt = 3,
  kFloat = 4,
  kString = 5,
  kDType = 6,
  kTensor = 7,
  kList = 8,
  kTuple = 9,
  kDict = 10,
  kObject = 11,
  kGraph = 12,
  kComplex = 13,
};

class Writer {
 public:
  Writer(ByteWriter& out, const std::function<uint64_t(const Tensor&)>& number_of)
      : out_(out), number_of_(number_of) {}

  void Write(const Any& value, int depth) {
    if (depth > kMaxDepth) {
      Throw(ErrorCode::kValue, "save: a value is nested deeper than {}", kMaxDepth);
    }
    switch (value.kind()) {
      case Kind::kNone:
        return Put(Tag::kNone);
      case Kind::kBool:
        return Put(value.ToBool() ? Tag::kTrue : Tag::kFalse);
      case Kind::kInt:
        Put(Tag::kInt);
        return out_.Signed(value.ToInt());
      case Kind::kFloat:
        Put(Tag::kFloat);
        return out_.Fixed(std::bit_cast<uint64_t>(value.ToDouble()));
      case Kind::kComplex:
        Put(Tag::kComplex);
        out_.Fixed(value.ToScalar().bits());
        return out_.Fixed(value.ToScalar().imag_bits());
      case Kind::kString:
        Put(Tag::kString);
        return out_.Text(value.ToStringRef());
      case Kind::kDType:
        Put(Tag::kDType);
        return out_.Byte(static_cast<uint8_t>(value.ToDType()));
      case Kind::kTensor:
        Put(Tag::kTensor);
        return out_.Count(number_of_(value.ToTensor()));
      case Kind::kList:
      case Kind::kTuple:
        Put(value.IsList() ? Tag::kList : Tag::kTuple);
        out_.Count(value.ToList().size());
        for (const Any& item : value.ToList()) Write(item, depth + 1);
        return;
      case Kind::kDict:
        Put(Tag::kDict);
        out_.Count(value.ToDict().size());
        for (const auto& [key, item] : value.ToDict()) {
          out_.Text(key);
          Write(item, depth + 1);
        }
        return;
      case Kind::kObject:
        return WriteObject(value, depth);
      case Kind::kGraph:
        Put(Tag::kGraph);
        return out_.Text(Serialize(*value.ToGraph()));
    }
  }

 private:
  void Put(Tag tag) { out_.Byte(static_cast<uint8_t>(tag)); }

  void WriteObject(const Any& value, int depth) {
    const ClassDef* def = FindClass(value.type_name());
    if (!def || !def->FindMethod("__getstate__") || !def->FindMethod("__setstate__")) {
      Throw(ErrorCode::kValue, "save: a {} has no methods __getstate__ and __setstate__",
            value.type_name());
    }
    Put(Tag::kObject);
    out_.Text(def->name);
    Write(CallMethod(value, "__getstate__"), depth + 1);
  }

  ByteWriter& out_;
  const std::function<uint64_t(const Tensor&)>& number_of_;
};

class Reader {
 public:
  Reader(ByteReader& in, const std::function<Tensor(uint64_t)>& tensor_of)
      : in_(in), tensor_of_(tensor_of) {}

  Any Read(int depth) {
    if (depth > kMaxDepth) in_.Fail("a value is nested deeper than {}", kMaxDepth);
    uint8_t tag = in_.Byte();
    switch (static_cast<Tag>(tag)) {
      case Tag::kNone:
        return Any();
      case Tag::kFalse:
        return Any(false);
      case Tag::kTrue:
        return Any(true);
      case Tag::kInt:
        return Any(in_.Signed());
      case Tag::kFloat:
        return Any(std::bit_cast<double>(in_.Fixed<uint64_t>()));
      case Tag::kComplex: {
        double real = std::bit_cast<double>(in_.Fixed<uint64_t>());
        return Any(std::complex(real, std::bit_cast<double>(in_.Fixed<uint64_t>())));
      }
      case Tag::kString:
        return Any(in_.Text());
      case Tag::kDType: {
        uint8_t dtype = in_.Byte();
        if (dtype >= kNumDTypes) in_.Fail("unknown dtype {}", dtype);
        return Any(static_cast<DType>(dtype));
      }
      case Tag::kTensor:
        return Any(tensor_of_(in_.Varint()));
      case Tag::kList:
        return Any(ReadItems(depth));
      case Tag::kTuple:
        return Any::Tuple(ReadItems(depth));
      case Tag::kDict: {
        AnyDict items;
        for (uint64_t count = in_.Count(); count > 0; --count) {
          std::string key = in_.Text();
          items[key] = Read(depth + 1);
        }
        return Any(std::move(items));
      }
      case Tag::kObject: {
        Any object = NewObject(in_.Text());
        CallMethod(object, "__setstate__", {Read(depth + 1)});
        return object;
      }
      case Tag::kGraph:
        return Any(std::make_shared<const Graph>(DeserializeGraph(in_.Text())));
    }
    in_.Fail("unknown kind of value {}", tag);
  }

 private:
  AnyList ReadItems(int depth) {
    AnyList items;
    for (uint64_t count = in_.Count(); count > 0; --count) items.push_back(Read(depth + 1));
    return items;
  }

  ByteReader& in_;
  const std::function<Tensor(uint64_t)>& tensor_of_;
};

}  // namespace

void WriteAny(ByteWriter& out, const Any& value,
              const std::function<uint64_t(const Tensor&)>& number_of) {
  Writer(out, number_of).Write(value, 0);
}

Any ReadAny(ByteReader& in, const std::function<Tensor(uint64_t)>& tensor_of) {
  return Reader(in, tensor_of).Read(0);
}

PackedTensors PackTensors(const Any& value) {
  PackedTensors packed;
  ByteWriter out;
  WriteAny(out, value, [&](const Tensor& tensor) {
    packed.tensors.push_back(tensor);
    return packed.tensors.size() - 1;
  });
  packed.form = out.Take();
  return packed;
}

Any UnpackTensors(const std::string& form, const std::vector<Tensor>& tensors) {
  ByteReader in("form", form);
  Any value = ReadAny(in, [&](uint64_t number) {
    if (number >= tensors.size()) in.Fail("tensor {} of {}", number, tensors.size());
    return tensors[number];
  });
  in.ExpectEnd();
  return value;
}

}  // namespace hammock
