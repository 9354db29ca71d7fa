#pragma once
/// Bytes of .npy and .npz files as NumPy writes them, for tests of what reads them.

#include <cstdint>
#include <string>
#include <vector>

namespace hammock::testing {

template <class T>
std::string Raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

template <class T>
std::string Raw(T value) {
  return Raw(std::vector<T>{value});
}

/// The bytes that numpy.save writes.
inline std::string Npy(const std::string& dict, const std::string& data, int version = 1) {
  std::string header = dict;
  size_t fixed = version == 1 ? 10 : 12;
  while ((fixed + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string size = version == 1 ? Raw(static_cast<uint16_t>(header.size()))
                                  : Raw(static_cast<uint32_t>(header.size()));
  return std::string("\x93NUMPY") + static_cast<char>(version) + '\0' + size + header + data;
}

inline std::string Dict(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }";
}

inline uint32_t Crc(const std::string& data) {
  uint32_t crc = ~0u;
  for (unsigned char c : data) {
    crc ^= c;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

struct Member {
  std::string name, data;
  uint16_t method = 0;
  bool zip64 = false;
};

/// The bytes that numpy.savez writes.
inline std::string Zip(const std::vector<Member>& members, const std::string& comment = "") {
  std::string file, directory;
  for (const Member& m : members) {
    auto size = static_cast<uint32_t>(m.data.size());
    uint32_t field = m.zip64 ? 0xffffffffu : size;
    std::string local_extra, extra;
    if (m.zip64) {
      local_extra =
          Raw<uint16_t>(1) + Raw<uint16_t>(16) + Raw<uint64_t>(size) + Raw<uint64_t>(size);
      extra = Raw<uint16_t>(0x7777) + Raw<uint16_t>(2) + "ab" + local_extra;
    }
    std::string facts = Raw<uint16_t>(20) + Raw<uint16_t>(0) + Raw(m.method) + Raw<uint32_t>(0) +
                        Raw(Crc(m.data)) + Raw(field) + Raw(field) +
                        Raw(static_cast<uint16_t>(m.name.size()));
    directory += Raw<uint32_t>(0x02014b50) + Raw<uint16_t>(20) + facts +
                 Raw(static_cast<uint16_t>(extra.size())) + Raw<uint16_t>(0) + Raw<uint16_t>(0) +
                 Raw<uint16_t>(0) + Raw<uint32_t>(0) + Raw(static_cast<uint32_t>(file.size())) +
                 m.name + extra;
    file += Raw<uint32_t>(0x04034b50) + facts + Raw(static_cast<uint16_t>(local_extra.size())) +
            m.name + local_extra + m.data;
  }
  auto count = static_cast<uint16_t>(members.size());
  return file + directory + Raw<uint32_t>(0x06054b50) + Raw<uint32_t>(0) + Raw(count) + Raw(count) +
         Raw(static_cast<uint32_t>(directory.size())) + Raw(static_cast<uint32_t>(file.size())) +
         Raw(static_cast<uint16_t>(comment.size())) + comment;
}

}  // namespace hammock::testing
