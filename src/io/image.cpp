#include <array>
#include <cstring>
#include <memory>

#include "base/throw.h"
#include "hammock/io/readers.h"
#include "io/file_bytes.h"

#ifdef HAMMOCK_WITH_PNG
#include <png.h>
#endif
#ifdef HAMMOCK_WITH_JPEG
#include <csetjmp>
#include <cstdio>

#include <jpeglib.h>
#endif

namespace hammock::io {
namespace {

using Bytes = std::span<const std::byte>;
constexpr int64_t kMaxPixels = int64_t{1} << 28;
// PNG's compression makes at most 1032 bytes of one, which hold 8 pixels each at the most. JPEG
// needs a bit for a block of 64 pixels.
constexpr int64_t kMaxPixelsPerByte = 8 * 1032;
[[maybe_unused]] constexpr int kMaxScans = 100;  // of a JPEG image; each goes over all pixels

[[maybe_unused]] HostTensor NewImage(int64_t height, int64_t width, int64_t channels,
                                     size_t file_bytes, const std::string& path) {
  if (height < 1 || width < 1 || height > kMaxPixels / width ||
      height * width / kMaxPixelsPerByte > static_cast<int64_t>(file_bytes)) {
    Throw(ErrorCode::kParse, "{}: an image of {} x {} pixels in {} bytes", path, width, height,
          file_bytes);
  }
  return HostTensor(Shape(DType::kU8, {height, width, channels}));
}

#ifdef HAMMOCK_WITH_PNG
HostTensor ReadPng(Bytes bytes, const std::string& path) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  struct Free {
    png_image* image;
    ~Free() { png_image_free(image); }
  } free{&image};
  auto check = [&](int done) {
    if (!done) Throw(ErrorCode::kParse, "{}: {}", path, image.message);
  };
  check(png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()));
  image.format &= PNG_FORMAT_FLAG_COLOR | PNG_FORMAT_FLAG_ALPHA;  // 8 bits, no palette
  HostTensor result = NewImage(image.height, image.width, PNG_IMAGE_SAMPLE_CHANNELS(image.format),
                               bytes.size(), path);
  check(png_image_finish_read(&image, nullptr, result.mutable_data(), 0, nullptr));
  return result;
}
#endif

#ifdef HAMMOCK_WITH_JPEG
/// The library's error handler must not return: it jumps to where `Guarded` was called.
struct JpegErrors : jpeg_error_mgr {
  std::jmp_buf jump;
  std::array<char, JMSG_LENGTH_MAX> text;

  [[noreturn]] static void Leave(j_common_ptr common) {
    auto* errors = static_cast<JpegErrors*>(common->err);
    errors->format_message(common, errors->text.data());
    std::longjmp(errors->jump, 1);
  }
  static void Hear(j_common_ptr common, int level) {
    if (level < 0) Leave(common);  // damaged: better an error than half an image
  }
  static void LimitScans(j_common_ptr common) {
    auto* state = reinterpret_cast<j_decompress_ptr>(common);
    if (state->input_scan_number <= kMaxScans) return;
    auto* errors = static_cast<JpegErrors*>(common->err);
    std::strcpy(errors->text.data(), "more scans than any image needs");
    std::longjmp(errors->jump, 1);
  }
};

/// Whether `body`, which must own nothing, came to its end.
template <class F>
bool Guarded(JpegErrors& errors, F body) {
  if (setjmp(errors.jump) != 0) return false;
  body();
  return true;
}

HostTensor ReadJpeg(Bytes bytes, const std::string& path) {
  jpeg_decompress_struct state{};
  JpegErrors errors{};
  state.err = jpeg_std_error(&errors);
  errors.error_exit = JpegErrors::Leave;
  errors.emit_message = JpegErrors::Hear;
  struct Destroy {
    jpeg_decompress_struct* state;
    ~Destroy() { jpeg_destroy_decompress(state); }
  } destroy{&state};
  jpeg_progress_mgr progress{};
  progress.progress_monitor = JpegErrors::LimitScans;
  auto check = [&](bool done) {
    if (!done) Throw(ErrorCode::kParse, "{}: {}", path, errors.text.data());
  };
  check(Guarded(errors, [&] {
    jpeg_create_decompress(&state);
    state.progress = &progress;
    jpeg_mem_src(&state, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&state, TRUE);
    state.out_color_space = state.num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_calc_output_dimensions(&state);
  }));
  HostTensor result = NewImage(state.output_height, state.output_width, state.output_components,
                               bytes.size(), path);
  auto* pixels = static_cast<unsigned char*>(result.mutable_data());
  check(Guarded(errors, [&] {
    jpeg_start_decompress(&state);
    size_t stride = size_t{state.output_width} * static_cast<size_t>(state.output_components);
    while (state.output_scanline < state.output_height) {
      unsigned char* row = pixels + state.output_scanline * stride;
      jpeg_read_scanlines(&state, &row, 1);
    }
    jpeg_finish_decompress(&state);
  }));
  return result;
}
#endif

}  // namespace

HostTensor ReadImage(const std::string& path, Location at) {
  LocationScope scope(at);
  return ParseImage(ReadFile(path), path);
}

HostTensor ParseImage(std::span<const std::byte> bytes, const std::string& path, Location at) {
  LocationScope scope(at);
  auto begins = [&](std::string_view magic) {
    return bytes.size() >= magic.size() &&
           std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  };
  if (begins("\x89PNG")) {
#ifdef HAMMOCK_WITH_PNG
    return ReadPng(bytes, path);
#else
    Throw<NotSupported>(ErrorCode::kNotSupported, "{}: a PNG image; this build is without libpng",
                        path);
#endif
  }
  if (begins("\xff\xd8")) {
#ifdef HAMMOCK_WITH_JPEG
    return ReadJpeg(bytes, path);
#else
    Throw<NotSupported>(ErrorCode::kNotSupported, "{}: a JPEG image; this build is without libjpeg",
                        path);
#endif
  }
  Throw(ErrorCode::kParse, "{}: neither a PNG nor a JPEG image", path);
}

}  // namespace hammock::io
