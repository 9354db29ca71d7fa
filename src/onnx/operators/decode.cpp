/// ImageDecoder: files of images as pixels, on the host.

#include <cctype>

#include "hammock/io/readers.h"
#include "onnx/operators/families.h"

namespace hammock::onnx {
namespace {

/// Reads numbers of a file from a position on; past the end everything is 0.
class Bytes {
 public:
  explicit Bytes(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  size_t at = 0;
  bool done() const { return at >= bytes_.size(); }
  int Next() { return done() ? 0 : bytes_[at++]; }
  int64_t LittleEndian(size_t offset, int count) const {
    int64_t value = 0;
    for (int i = count; i-- > 0;) {
      size_t position = offset + static_cast<size_t>(i);
      value = value * 256 + (position < bytes_.size() ? bytes_[position] : 0);
    }
    return value;
  }
  /// Digits after white space and comments.
  int64_t Decimal() {
    constexpr int64_t kMost = 1 << 24;
    for (;;) {
      int c = Next();
      if (c == '#') {
        while (!done() && Next() != '\n') {
        }
      } else if (std::isdigit(c)) {
        int64_t value = c - '0';
        while (!done() && std::isdigit(bytes_[at]) && value < kMost) {
          value = value * 10 + (bytes_[at++] - '0');
        }
        return value;
      } else if (!std::isspace(c)) {
        return -1;
      }
    }
  }
  size_t size() const { return bytes_.size(); }
  int operator[](size_t i) const { return i < bytes_.size() ? bytes_[i] : 0; }

 private:
  std::span<const uint8_t> bytes_;
};

/// Nothing where the sizes are no image that the bytes can hold.
std::optional<HostTensor> Pixels(const Bytes& file, int64_t height, int64_t width,
                                 int64_t channels) {
  auto most = static_cast<int64_t>(file.size()) * 8;
  if (height < 1 || width < 1 || height > most || width > most / height) return std::nullopt;
  return HostTensor(Shape(DType::kU8, {height, width, channels}));
}

/// P1 to P6: bits, greys and colours, as digits or as bytes.
std::optional<HostTensor> PortableImage(Bytes file) {
  int kind = file[1] - '0';
  file.at = 2;
  bool digits = kind <= 3, bits = kind % 3 == 1;
  int64_t channels = kind % 3 == 0 ? 3 : 1;
  int64_t width = file.Decimal(), height = file.Decimal(), most = bits ? 1 : file.Decimal();
  if (most < 1 || most > 255) return std::nullopt;
  std::optional<HostTensor> image = Pixels(file, height, width, channels);
  if (!image) return std::nullopt;
  if (!digits) file.Next();
  int left = 0, byte = 0;
  int64_t row = width * channels, i = 0;
  for (uint8_t& pixel : image->mutable_values<uint8_t>()) {
    if (bits && !digits && i % row == 0) left = 0;
    if (bits && digits) {
      while (!file.done() && std::isspace(file[file.at])) file.Next();
      pixel = file.Next() == '1' ? 0 : 255;
    } else if (bits) {
      if (left == 0) {
        byte = file.Next();
        left = 8;
      }
      pixel = (byte >> --left) & 1 ? 0 : 255;
    } else {
      int64_t value = digits ? file.Decimal() : file.Next();
      pixel = static_cast<uint8_t>(std::min<int64_t>(value, most) * 255 / most);
    }
    ++i;
  }
  return image;
}

/// Windows bitmaps of 24 or 32 bits a pixel, not compressed.
std::optional<HostTensor> Bitmap(const Bytes& file) {
  int64_t start = file.LittleEndian(10, 4), width = file.LittleEndian(18, 4);
  auto height = static_cast<int32_t>(file.LittleEndian(22, 4));
  int64_t bits = file.LittleEndian(28, 2), compression = file.LittleEndian(30, 4);
  bool upward = height > 0;
  int64_t rows = upward ? height : -static_cast<int64_t>(height);
  if ((bits != 24 && bits != 32) || (compression != 0 && compression != 3)) return std::nullopt;
  std::optional<HostTensor> image = Pixels(file, rows, width, 3);
  if (!image) return std::nullopt;
  int64_t each = bits / 8, stride = (width * each + 3) / 4 * 4;
  auto pixels = image->mutable_values<uint8_t>();
  size_t next = 0;
  for (int64_t y = 0; y < rows; ++y) {
    int64_t line = start + (upward ? rows - 1 - y : y) * stride;
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t channel = 2; channel >= 0; --channel) {  // blue, green, red in the file
        pixels[next++] = static_cast<uint8_t>(file[static_cast<size_t>(line + x * each + channel)]);
      }
    }
  }
  return image;
}

std::optional<HostTensor> Decoded(const Call& c, const HostTensor& bytes) {
  auto data = bytes.values<uint8_t>();
  Bytes file(data);
  if (file[0] == 'P' && file[1] >= '1' && file[1] <= '6') return PortableImage(file);
  if (file[0] == 'B' && file[1] == 'M') return Bitmap(file);
  bool png = file[0] == 0x89 && file[1] == 'P', jpeg = file[0] == 0xff && file[1] == 0xd8;
  if (!png && !jpeg) c.Unsupported("images other than PNG, JPEG, BMP and PNM are not supported");
  try {
    return io::ParseImage(std::as_bytes(data), "the encoded image");
  } catch (const ValueError&) {
    return std::nullopt;
  }
}

/// An image that cannot be decoded is an empty one.
Values ImageDecoder(Call& c) {
  HostTensor bytes = c.Host(0);
  if (bytes.dtype() != DType::kU8) c.Fail("the bytes are {}", bytes.shape().to_string());
  std::string format = c.Text("pixel_format", "RGB");
  bool grey = format == "Grayscale", reversed = format == "BGR";
  if (!grey && !reversed && format != "RGB") c.Fail("pixel_format '{}'", format);
  std::optional<HostTensor> image = Decoded(c, bytes);
  int64_t wanted = grey ? 1 : 3;
  if (!image) return {Value::Known(HostTensor(Shape(DType::kU8, {0, 0, wanted})))};
  int64_t channels = image->shape().size(2), colours = channels < 3 ? 1 : 3;
  HostTensor result(Shape(DType::kU8, {image->shape().size(0), image->shape().size(1), wanted}));
  auto from = image->values<uint8_t>();
  auto to = result.mutable_values<uint8_t>();
  for (size_t pixel = 0; pixel < to.size() / static_cast<size_t>(wanted); ++pixel) {
    const uint8_t* own = from.data() + pixel * static_cast<size_t>(channels);
    auto colour = [&](int i) { return own[colours == 1 ? 0 : i]; };
    if (grey) {
      to[pixel] = colours == 1 ? own[0]
                               : static_cast<uint8_t>(0.299 * colour(0) + 0.587 * colour(1) +
                                                      0.114 * colour(2) + 0.5);
      continue;
    }
    for (int i = 0; i < 3; ++i) {
      to[pixel * 3 + static_cast<size_t>(i)] = colour(reversed ? 2 - i : i);
    }
  }
  return {Value::Known(result)};
}

constexpr Operator kRows[] = {
    {"ImageDecoder", 20, kNewestOpset, ImageDecoder, Needs::kScope},
};

}  // namespace

std::span<const Operator> DecodeOperators() { return kRows; }

}  // namespace hammock::onnx
