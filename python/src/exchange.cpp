#include "exchange.h"

#include <nanobind/stl/pair.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dlpack.h"
#include "errors.h"
#include "gil.h"
#include "hammock/lazy/backend_interface.h"
#include "hammock/lazy/device_exchange.h"
#include "hammock/ops.h"
#include "location.h"
#include "reading.h"
#include "release.h"
#include "tensor_object.h"

namespace hammock::python {
namespace {

// ---- Buffers

struct Format {
  std::string_view code;
  DType dtype;
};
constexpr Format kFormats[] = {{"?", boolean}, {"B", u8},   {"H", u16},  {"I", u32}, {"L", u64},
                               {"Q", u64},     {"b", i8},   {"h", i16},  {"i", i32}, {"l", i64},
                               {"q", i64},     {"n", i64},  {"N", u64},  {"e", f16}, {"f", f32},
                               {"d", f64},     {"Zf", c64}, {"Zd", c128}};

const char* FormatOf(DType dtype) {
  static const char* const names[] = {"?", "B", "H",     "I", "L", "b",  "h", "i",
                                      "l", "e", nullptr, "f", "d", "Zf", "Zd"};
  auto index = static_cast<size_t>(dtype);
  return index < std::size(names) ? names[index] : nullptr;
}

DType DTypeOfFormat(const char* format, Py_ssize_t item_size) {
  std::string_view text = format ? format : "B";
  if (text.starts_with('@') || text.starts_with('=') || text.starts_with('<'))
    text.remove_prefix(1);
  for (const Format& known : kFormats) {
    if (text == known.code && InfoOf(known.dtype).bits / 8 == item_size) return known.dtype;
  }
  throw TypeError(ErrorCode::kDTypeMismatch, std::string("tensor: elements of the format '") +
                                                 (format ? format : "") + "' are not supported");
}

Dims SizesOf(const Py_buffer& view) {
  if (view.ndim > kMaxRank) {
    throw ValueError(ErrorCode::kValue, "tensor: an array of " + std::to_string(view.ndim) +
                                            " dims; tensors have at most " +
                                            std::to_string(kMaxRank));
  }
  Dims sizes;
  for (int i = 0; i < view.ndim; ++i) sizes.push_back(view.shape[i]);
  return sizes;
}

struct BufferView {
  Py_buffer view{};
  ~BufferView() { PyBuffer_Release(&view); }
};

HostTensor Contiguous(const Py_buffer& view) {
  HostTensor host(Shape(DTypeOfFormat(view.format, view.itemsize), SizesOf(view)));
  if (view.len > 0 && PyBuffer_ToContiguous(host.mutable_data(), &view, view.len, 'C') != 0)
    ThrowPythonError();
  return host;
}

/// A memoryview of the source, which keeps it and its memory.
Tensor Share(PyObject* source, const Py_buffer& view, const Device& device) {
  nb::object keeper = nb::steal(PyMemoryView_FromObject(source));
  if (!keeper.is_valid()) ThrowPythonError();
  PyObject* held = keeper.release().ptr();
  return from_blob(view.buf, SizesOf(view), DTypeOfFormat(view.format, view.itemsize),
                   BorrowedMemory([held] { ReleaseLater(held); }), device);
}

Tensor ImportBuffer(PyObject* source, const Device& device, Copy copy) {
  BufferView buffer;
  if (PyObject_GetBuffer(source, &buffer.view, PyBUF_FULL_RO) != 0) ThrowPythonError();
  const Py_buffer& view = buffer.view;
  bool contiguous = PyBuffer_IsContiguous(&view, 'C') != 0;
  bool share = contiguous && view.len > 0 &&
               (copy == Copy::kNever || (copy == Copy::kIfWritable && view.readonly));
  if (share) return Share(source, view, device);
  if (copy == Copy::kNever && view.len > 0) {
    throw ValueError(ErrorCode::kValue,
                     "asarray: copy=False, but the elements do not lie in row-major order");
  }
  return from_host(Contiguous(view), device);
}

// ---- DLPack, imports

DType DTypeOfDLPack(const dlpack::DataType& type) {
  struct Known {
    uint8_t code, bits;
    DType dtype;
  };
  using namespace dlpack;
  static constexpr Known known[] = {{dlpack::kBool, 8, boolean},
                                    {kUInt, 8, u8},
                                    {kUInt, 16, u16},
                                    {kUInt, 32, u32},
                                    {kUInt, 64, u64},
                                    {kInt, 8, i8},
                                    {kInt, 16, i16},
                                    {kInt, 32, i32},
                                    {kInt, 64, i64},
                                    {kFloat, 16, f16},
                                    {kBfloat, 16, bf16},
                                    {kFloat, 32, f32},
                                    {kFloat, 64, f64},
                                    {kComplex, 64, c64},
                                    {kComplex, 128, c128},
                                    {kFloat8E4M3, 8, DType::kF8E4M3},
                                    {kFloat8E5M2, 8, DType::kF8E5M2}};
  for (const Known& each : known) {
    if (each.code == type.code && each.bits == type.bits && type.lanes == 1) return each.dtype;
  }
  throw TypeError(ErrorCode::kDTypeMismatch,
                  "from_dlpack: elements of the code " + std::to_string(type.code) + " with " +
                      std::to_string(type.bits) + " bits are not supported");
}

bool IsRowMajor(const dlpack::Array& array) {
  if (!array.strides) return true;
  int64_t expected = 1;
  for (int i = array.ndim - 1; i >= 0; --i) {
    if (array.shape[i] != 1 && array.strides[i] != expected) return false;
    expected *= array.shape[i];
  }
  return true;
}

/// Copies strided elements into row-major ones.
void CopyStrided(const dlpack::Array& array, int dim, const char* source, size_t size, char*& out) {
  if (dim == array.ndim) {
    std::memcpy(out, source, size);
    out += size;
    return;
  }
  auto stride = array.strides[dim] * static_cast<int64_t>(size);
  for (int64_t i = 0; i < array.shape[dim]; ++i)
    CopyStrided(array, dim + 1, source + i * stride, size, out);
}

template <class ManagedArray>
bool IsReadOnly(const ManagedArray& managed) {
  if constexpr (requires { managed.flags; }) return (managed.flags & dlpack::kReadOnly) != 0;
  return false;
}

std::optional<Device> CardOf(const dlpack::Device& place) {
  if (place.type != dlpack::kCuda && place.type != dlpack::kCudaManaged) return std::nullopt;
  for (const Device& device : Devices()) {
    if (device.type() == "cuda" && device.ordinal() == place.id && ExchangeOf(device))
      return device;
  }
  return std::nullopt;
}

/// Our work that reads the memory of a card has been given to it, but may not be over.
void WaitForReaders(const dlpack::Device& place) {
  std::optional<Device> card = CardOf(place);
  if (!card || IsFinalizing()) return;
  WithoutGil no_gil;
  try {
    card->backend().WaitForDevice(card->backend_device());
  } catch (const std::exception&) {
    // The card is lost: nothing reads any more.
  }
}

/// Takes an array over from its capsule, which nobody can use any more. The array lives as long as
/// the result.
template <class ManagedArray>
nb::object TakeOver(PyObject* capsule, ManagedArray* managed) {
  auto destroy = [](PyObject* keeper) {
    auto* held = static_cast<ManagedArray*>(PyCapsule_GetPointer(keeper, ManagedArray::kUsedName));
    WaitForReaders(held->array.device);
    if (held->deleter) held->deleter(held);
  };
  nb::object keeper = nb::steal(PyCapsule_New(managed, ManagedArray::kUsedName, nullptr));
  if (!keeper.is_valid() || PyCapsule_SetName(capsule, ManagedArray::kUsedName) != 0 ||
      PyCapsule_SetDestructor(capsule, nullptr) != 0 ||
      PyCapsule_SetDestructor(keeper.ptr(), destroy) != 0) {
    ThrowPythonError();
  }
  return keeper;
}

/// The structures of another major version are laid out in other ways.
template <class ManagedArray>
void CheckVersion(const ManagedArray& managed) {
  if constexpr (requires { managed.version; }) {
    if (managed.version.major <= 1) return;
    throw NotSupported(ErrorCode::kNotSupported, "from_dlpack: the array is of DLPack " +
                                                     std::to_string(managed.version.major) + "." +
                                                     std::to_string(managed.version.minor) +
                                                     ", needs version 1");
  }
}

/// How many elements there are from the first to the last one, those in between of strided arrays
/// included.
int64_t SpanOf(const dlpack::Array& array) {
  int64_t span = 1;
  for (int i = 0; i < array.ndim; ++i) {
    if (array.strides[i] < 0) {
      throw NotSupported(ErrorCode::kNotSupported,
                         "from_dlpack: a dim runs backwards; copy the array first");
    }
    span += (array.shape[i] - 1) * array.strides[i];
  }
  return span;
}

/// The producer has let the default stream wait for what computes the elements.
template <class ManagedArray>
Tensor ImportFromCard(PyObject* capsule, ManagedArray* managed, const Shape& shape,
                      const Device& card, const Device& device, Copy copy) {
  constexpr auto kStream = lazy::DeviceExchange::kDefaultStream;
  const dlpack::Array& array = managed->array;
  const bool row_major = IsRowMajor(array) || shape.numel() == 0;
  const auto address = reinterpret_cast<uint64_t>(array.data) + array.byte_offset;
  const bool readable = row_major && device == card &&
                        address % static_cast<uint64_t>(ExchangeOf(card)->alignment()) == 0;
  if (copy == Copy::kNever && !readable && shape.numel() > 0) {
    throw ValueError(ErrorCode::kValue,
                     "from_dlpack: copy=False, but the elements are asked for on another device, "
                     "do not lie in row-major order or are not aligned");
  }
  const bool share =
      readable && (copy == Copy::kNever || (copy == Copy::kIfWritable && IsReadOnly(*managed)));
  const Shape memory = row_major ? shape : Shape(shape.dtype(), {SpanOf(array)});
  nb::object keeper = TakeOver(capsule, managed);
  if (shape.numel() == 0) return from_host(HostTensor(shape), device);
  Callback<void()> release;
  if (share) {
    release = [held = std::shared_ptr<PyObject>(keeper.release().ptr(), ReleaseLater)] {};
  }
  Tensor imported = [&] {
    WithoutGil no_gil;
    return FromDeviceMemory(address, memory, card, kStream, std::move(release), Location());
  }();
  if (!row_major) {
    std::span<const int64_t> strides(array.strides, static_cast<size_t>(array.ndim));
    imported = as_strided(imported, shape.sizes(), Dims(strides));
  }
  return imported.to(device);
}

template <class ManagedArray>
Tensor ImportCapsule(PyObject* capsule, const Device& device, Copy copy) {
  auto* managed = static_cast<ManagedArray*>(PyCapsule_GetPointer(capsule, ManagedArray::kName));
  if (!managed) ThrowPythonError();
  CheckVersion(*managed);
  const dlpack::Array& array = managed->array;
  const std::optional<Device> card = CardOf(array.device);
  if (!card && array.device.type != dlpack::kCpu && array.device.type != dlpack::kCudaHost) {
    throw NotSupported(ErrorCode::kNotSupported,
                       "from_dlpack: the array is on a device that Hammock does not share; copy it "
                       "to the CPU first");
  }
  if (array.ndim > kMaxRank || array.ndim < 0) {
    throw ValueError(ErrorCode::kValue,
                     "from_dlpack: tensors have at most " + std::to_string(kMaxRank) + " dims");
  }
  Shape shape(DTypeOfDLPack(array.dtype),
              Dims(std::span<const int64_t>(array.shape, static_cast<size_t>(array.ndim))));
  CheckSizes("from_dlpack", shape.sizes());
  if (card) return ImportFromCard(capsule, managed, shape, *card, device, copy);
  const char* data = static_cast<const char*>(array.data) + array.byte_offset;
  bool row_major = IsRowMajor(array) || shape.numel() == 0;
  bool share = row_major && shape.numel() > 0 &&
               (copy == Copy::kNever || (copy == Copy::kIfWritable && IsReadOnly(*managed)));
  if (copy == Copy::kNever && !row_major) {
    throw ValueError(ErrorCode::kValue,
                     "from_dlpack: copy=False, but the elements do not lie in row-major order");
  }
  nb::object keeper = TakeOver(capsule, managed);
  if (share) {
    PyObject* held = keeper.release().ptr();
    return from_blob(data, shape.sizes(), shape.dtype(),
                     BorrowedMemory([held] { ReleaseLater(held); }), device);
  }
  if (row_major)
    return from_blob(data, shape.sizes(), shape.dtype(), std::function<void()>(), device);
  HostTensor host(shape);
  char* out = static_cast<char*>(host.mutable_data());
  CopyStrided(array, 0, data, static_cast<size_t>(InfoOf(shape.dtype()).bits / 8), out);
  return from_host(std::move(host), device);
}

// ---- DLPack, exports

dlpack::DataType DLPackType(DType dtype) {
  const DTypeInfo& info = InfoOf(dtype);
  uint8_t code = dtype == bf16                       ? dlpack::kBfloat
                 : dtype == DType::kF8E4M3           ? dlpack::kFloat8E4M3
                 : dtype == DType::kF8E5M2           ? dlpack::kFloat8E5M2
                 : info.kind == DTypeKind::kFloat    ? dlpack::kFloat
                 : info.kind == DTypeKind::kComplex  ? dlpack::kComplex
                 : info.kind == DTypeKind::kBool     ? dlpack::kBool
                 : info.kind == DTypeKind::kUnsigned ? dlpack::kUInt
                                                     : dlpack::kInt;
  return {code, static_cast<uint8_t>(info.bits), 1};
}

/// Row-major elements, which `keeper` keeps, and the sizes and strides that an exported array
/// points to.
struct Export {
  Export(const HostTensor& host)  // NOLINT: it is one
      : Export(const_cast<void*>(host.data()), {dlpack::kCpu, 0}, host.shape(),
               std::make_shared<HostTensor>(host)) {}
  Export(void* data, dlpack::Device place, const Shape& shape, std::shared_ptr<void> keeper)
      : data(data),
        place(place),
        shape(shape),
        keeper(std::move(keeper)),
        sizes(shape.sizes()),
        strides(ContiguousStrides(shape.sizes())) {}

  void* data;
  dlpack::Device place;
  Shape shape;
  std::shared_ptr<void> keeper;
  Dims sizes, strides;
};

template <class ManagedArray>
nb::object ExportCapsule(Export elements, uint64_t flags) {
  auto owner = std::make_unique<Export>(std::move(elements));
  auto managed = std::make_unique<ManagedArray>();
  managed->array = {owner->data,
                    owner->place,
                    owner->shape.rank(),
                    DLPackType(owner->shape.dtype()),
                    owner->sizes.begin(),
                    owner->strides.begin(),
                    0};
  if constexpr (requires { managed->flags; }) {
    managed->version = {1, 1};
    managed->flags = flags;
  }
  managed->owner = owner.release();
  managed->deleter = [](ManagedArray* self) {
    delete static_cast<Export*>(self->owner);
    delete self;
  };
  auto destroy = [](PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, ManagedArray::kName)) return;  // a consumer has taken it over
    auto* held = static_cast<ManagedArray*>(PyCapsule_GetPointer(capsule, ManagedArray::kName));
    held->deleter(held);
  };
  nb::object capsule = nb::steal(PyCapsule_New(managed.get(), ManagedArray::kName, destroy));
  if (!capsule.is_valid()) ThrowPythonError();
  managed.release();
  return capsule;
}

[[noreturn]] void ThrowBufferError(const char* why) {
  PyErr_SetString(PyExc_BufferError, why);
  ThrowPythonError();
}

/// The memory of its card that a tensor is exported from.
dlpack::Device PlaceOf(const Tensor& tensor) {
  const Device device = tensor.device();
  if (device.type() != "cuda" || !ExchangeOf(device)) return {dlpack::kCpu, 0};
  return {dlpack::kCuda, static_cast<int32_t>(device.ordinal())};
}

/// As the standard says: None is the default stream, -1 asks for no order.
std::optional<lazy::DeviceExchange::Stream> StreamArgument(nb::handle stream) {
  if (stream.is_none()) return lazy::DeviceExchange::kDefaultStream;
  const auto handle = nb::cast<int64_t>(stream);
  if (handle == -1) return std::nullopt;
  if (handle <= 0) ThrowBufferError("stream must be a stream's handle, 1, 2 or -1: 0 is ambiguous");
  return static_cast<lazy::DeviceExchange::Stream>(handle);
}

Export OnCard(const Tensor& tensor, dlpack::Device place, nb::handle stream, bool copies) {
  const auto after = StreamArgument(stream);
  Tensor held = tensor;  // another thread may let go of the object meanwhile
  WithoutGil no_gil;
  SharedDeviceMemory memory =
      copies ? LentMemory(held, after, Location()) : SharedMemory(held, after, Location());
  return {reinterpret_cast<void*>(memory.address), place,
          Shape(held.dtype(), held.sizes(Location())), std::move(memory.holder)};
}

Export OnHost(const Tensor& tensor, bool copies) {
  HostTensor host = Read(tensor);
  return copies ? HostTensor::Copy(host.shape(), host.data()) : host;
}

nb::object ExportDLPack(const Tensor& tensor, nb::handle stream, nb::handle max_version,
                        nb::handle device, nb::handle copy) {
  CallerLine line;
  dlpack::Device place = PlaceOf(tensor);
  if (!device.is_none()) {
    const auto [type, id] = nb::cast<std::pair<int, int>>(device);
    if (type == dlpack::kCpu) {
      place = {dlpack::kCpu, 0};
    } else if (type != place.type || id != place.id) {
      ThrowBufferError("Hammock exports to host memory, or from the card that has the tensor");
    }
  }
  if (tensor.requires_grad())
    ThrowBufferError("a tensor that requires grad is exported by detach() first");
  bool versioned = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
  // Without a version there is no way to say "read-only": such a consumer gets memory of its own,
  // unless it insists on ours.
  bool copies = copy.is_none() ? !versioned : nb::cast<bool>(copy);
  Export elements =
      place.type == dlpack::kCpu ? OnHost(tensor, copies) : OnCard(tensor, place, stream, copies);
  if (!versioned) return ExportCapsule<dlpack::Managed>(std::move(elements), 0);
  return ExportCapsule<dlpack::ManagedVersioned>(std::move(elements),
                                                 copies ? dlpack::kIsCopied : dlpack::kReadOnly);
}

}  // namespace

HostTensor CopyBuffer(PyObject* source) {
  BufferView buffer;
  if (PyObject_GetBuffer(source, &buffer.view, PyBUF_FULL_RO) != 0) ThrowPythonError();
  return Contiguous(buffer.view);
}

DLPackCode DLPackCodeOf(DType dtype) {
  const dlpack::DataType type = DLPackType(dtype);
  return {type.code, type.bits};
}

std::optional<Device> CardOf(PyObject* source) {
  nb::object method = nb::getattr(nb::handle(source), "__dlpack_device__", nb::none());
  if (method.is_none()) return std::nullopt;
  const auto [type, id] = nb::cast<std::pair<int, int>>(method());
  return CardOf(dlpack::Device{type, id});
}

Tensor ImportDLPack(PyObject* source, const Device& device, Copy copy) {
  nb::handle object = source;
  nb::object capsule;
  if (PyCapsule_CheckExact(source)) {
    capsule = nb::borrow(source);
  } else {
    nb::object method = nb::getattr(object, "__dlpack__", nb::none());
    if (method.is_none()) {
      throw TypeError(ErrorCode::kSchema, std::string("from_dlpack: an object of type ") +
                                              Py_TYPE(source)->tp_name + " has no __dlpack__");
    }
    nb::dict arguments;
    if (CardOf(source)) arguments["stream"] = lazy::DeviceExchange::kDefaultStream;
    nb::dict versioned(arguments);
    versioned["max_version"] = nb::make_tuple(1, 1);
    try {
      capsule = method(**versioned);
    } catch (nb::python_error& error) {  // a producer from before version 1
      if (!error.matches(PyExc_TypeError)) throw;
      capsule = method(**arguments);
    }
  }
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::ManagedVersioned::kName)) {
    return ImportCapsule<dlpack::ManagedVersioned>(capsule.ptr(), device, copy);
  }
  if (PyCapsule_IsValid(capsule.ptr(), dlpack::Managed::kName)) {
    return ImportCapsule<dlpack::Managed>(capsule.ptr(), device, copy);
  }
  throw TypeError(ErrorCode::kSchema,
                  "from_dlpack: __dlpack__ returned no capsule of DLPack, or one that was used");
}

Tensor Import(PyObject* source, const Device& device, Copy copy) {
  const bool has_dlpack = PyObject_HasAttrString(source, "__dlpack__") != 0;
  if (PyObject_CheckBuffer(source)) {
    try {
      return ImportBuffer(source, device, copy);
    } catch (nb::python_error& error) {  // such as JAX's bfloat16, which buffers have no name for
      if (!has_dlpack || !error.matches(PyExc_BufferError)) throw;
    }
  }
  if (has_dlpack) return ImportDLPack(source, device, copy);
  nb::object array = nb::handle(source).attr("__array__")();
  if (!PyObject_CheckBuffer(array.ptr())) {
    throw TypeError(ErrorCode::kSchema, "tensor: __array__ returned no array");
  }
  return ImportBuffer(array.ptr(), device, copy);
}

int GetBuffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  try {
    CallerLine line;
    const Tensor& tensor = TensorOf(self);
    const char* format = FormatOf(tensor.dtype());
    if ((flags & PyBUF_WRITABLE) == PyBUF_WRITABLE || !format || tensor.requires_grad()) {
      PyErr_SetString(PyExc_BufferError,
                      !format ? "this dtype has no buffer format: cast it first"
                      : tensor.requires_grad()
                          ? "a tensor that requires grad is exported by detach() first"
                          : "exports of tensors are read-only; numpy.array(x) makes a copy that "
                            "can be written");
      return -1;
    }
    HostTensor host = Read(tensor);
    auto owner = std::make_unique<Export>(host);
    for (int64_t& stride : owner->strides) stride *= InfoOf(host.dtype()).bits / 8;
    *view = {};
    view->buf = const_cast<void*>(host.data());
    view->len = host.bytes();
    view->itemsize = InfoOf(host.dtype()).bits / 8;
    view->readonly = 1;
    view->ndim = host.shape().rank();
    view->format = (flags & PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
    static_assert(sizeof(Py_ssize_t) == sizeof(int64_t));
    view->shape =
        (flags & PyBUF_ND) ? reinterpret_cast<Py_ssize_t*>(owner->sizes.begin()) : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES
                        ? reinterpret_cast<Py_ssize_t*>(owner->strides.begin())
                        : nullptr;
    view->internal = owner.release();
    view->obj = Py_NewRef(self);
    return 0;
  } catch (...) {
    SetPythonError();
    return -1;
  }
}

void ReleaseBuffer(PyObject*, Py_buffer* view) { delete static_cast<Export*>(view->internal); }

void AddExchange(nb::module_& module) {
  module.def("export_dlpack", ExportDLPack, nb::arg("tensor"), nb::arg("stream").none(),
             nb::arg("max_version").none(), nb::arg("device").none(), nb::arg("copy").none());
  module.def("dlpack_device", [](const Tensor& tensor) {
    const dlpack::Device place = PlaceOf(tensor);
    return std::pair<int, int>(place.type, place.id);
  });
}

}  // namespace hammock::python
