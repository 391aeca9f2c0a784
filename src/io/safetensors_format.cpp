// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>
#include <set>

#include "io/elements.h"
#include "io/safetensors_header.h"
#include "io/text.h"

namespace ennead::io {

Refusal format_safetensors_header(std::span<const NamedRawTensor> tensors, const SafetensorsMetadata& metadata,
                                  std::string& header) {
  // Ordered: the names stand in the file in the order of their data.
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [key, text] : metadata) {
    if (!is_utf8(key) || !is_utf8(text)) return sentence("expected metadata in UTF-8, got ", in_quotes(key));
    json["__metadata__"][key] = text;
  }
  std::uint64_t offset = 0;
  std::set<std::string_view> names;
  for (const NamedRawTensor& each : tensors) {
    if (each.name.empty() || each.name == "__metadata__" || !is_utf8(each.name)) {
      return sentence("expected a name in UTF-8 for a tensor, got ", in_quotes(each.name));
    }
    if (!names.insert(each.name).second)
      return sentence("expected every name once, got ", in_quotes(each.name), " twice");
    const std::span sizes(each.tensor.sizes.begin(), each.tensor.sizes.end());
    const auto bytes = checked_bytes(sizes, size_in_bytes(each.tensor.dtype));
    if (bytes != each.tensor.bytes.size()) {
      return sentence("expected the bytes of sizes ", to_string(each.tensor.sizes), " of ", name(each.tensor.dtype),
                      " for ", in_quotes(each.name), ", got ", each.tensor.bytes.size());
    }
    const std::uint64_t end = offset + each.tensor.bytes.size();
    json.push_back(
        {each.name,
         {{"dtype", safetensors_name(each.tensor.dtype)}, {"shape", sizes}, {"data_offsets", {offset, end}}}});
    offset = end;
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > kMaxSafetensorsHeader) {
    return sentence("expected a header of at most ", kMaxSafetensorsHeader, " bytes, got ", text.size());
  }
  header.clear();
  for (unsigned shift = 0; shift < 64; shift += 8) header += static_cast<char>(text.size() >> shift & 0xff);
  header += text;
  return {};
}

}  // namespace ennead::io
