// SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <set>

#include "io/raw_module.h"
#include "io/raw_tensor.h"
#include "io/text.h"
#include "io/transfer.h"
#include "io/weight_layouts.h"

namespace ennead::io {
namespace {

/// Reads tensors of one module and remembers which, so that what is left over can be named.
class ModuleReader {
 public:
  ModuleReader(const SafetensorsFile& file, const WeightSource& source)
      : file_(file), source_(source), prefix_(dotted(source.prefix)), spec_(spec_of(recognize(file, source))) {}

  RawModule read() {
    module_.info.layout = spec_.layout;
    find_heads();
    read_weights();
    read_biases();
    module_.out_weight = take(spec_.out_weight);
    require_matrix(module_.out_weight, spec_.out_weight);
    if (spec_.out_transposed) module_.out_weight = transposed(module_.out_weight);
    if (has(spec_.out_bias)) module_.out_bias = take(spec_.out_bias);
    check_leftovers();
    check_sizes();
    return std::move(module_);
  }

 private:
  template <class... Parts>
  void refuse_if(bool wrong, const Parts&... parts) const {
    if (wrong) require_file(file_.path(), sentence(parts...));
  }

  bool has(std::string_view name) const { return file_.find(prefix_ + std::string(name)) != nullptr; }

  RawTensor take(std::string_view name) {
    const std::string full = prefix_ + std::string(name);
    used_.insert(full);
    RawTensor tensor = file_.read_raw(full);
    refuse_if(tensor.dtype == DType::boolean, "expected floating point numbers in ", in_quotes(full), ", got booleans");
    if (used_.size() == 1) module_.info.dtype = tensor.dtype;
    refuse_if(tensor.dtype != module_.info.dtype, "expected weights of one type, got ", ennead::name(tensor.dtype),
              " in ", in_quotes(full), " beside ", ennead::name(module_.info.dtype));
    return tensor;
  }

  void require_matrix(const RawTensor& tensor, std::string_view name) const {
    refuse_if(tensor.sizes.rank() != 2, "expected a matrix as ", in_quotes(prefix_ + std::string(name)), ", got sizes ",
              to_string(tensor.sizes));
  }

  void find_heads() {
    std::int64_t& heads = module_.info.num_heads;
    heads = 0;
    if (spec_.weights.parts == Parts::per_head) {
      while (has(head_name(heads, spec_.weights.names[0]))) ++heads;
    } else if (const auto found = file_.metadata().find("num_heads"); found != file_.metadata().end()) {
      const std::string& text = found->second;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), heads);
      refuse_if(error != std::errc() || end != text.data() + text.size() || heads < 1,
                "expected a whole number of at least 1 as num_heads in the file's metadata, got ", in_quotes(text));
    }
    const std::int64_t asked = source_.num_heads.value_or(heads);
    refuse_if(heads != 0 && asked != heads, "expected the ", heads, " heads that the file tells of, got ", asked);
    refuse_if(asked < 1, "expected the number of heads (--heads), which the layout ", spec_.name,
              " does not tell, got ", source_.num_heads ? std::to_string(asked) : "none");
    heads = asked;
  }

  /// Q, K and V as torch's linear layers have them, out of separate, fused or per-head tensors.
  std::array<RawTensor, 3> take_parts(const PartNames& parts, bool matrices) {
    std::vector<RawTensor> tensors;
    for (const std::string& name : part_names(parts, module_.info.num_heads)) {
      tensors.push_back(take(name));
      RawTensor& tensor = tensors.back();
      const int rank = matrices ? 2 : 1;
      refuse_if(tensor.sizes.rank() != rank, "expected ", rank, matrices ? " axes" : " axis", " in ",
                in_quotes(prefix_ + name), ", got sizes ", to_string(tensor.sizes));
      if (matrices && spec_.transposed) tensor = transposed(tensor);
      refuse_if(matrices && tensor.sizes[1] != tensors.front().sizes[1], "expected the same d_in for all weights, got ",
                tensors.front().sizes[1], " and, in ", in_quotes(prefix_ + name), ", ", tensor.sizes[1]);
      refuse_if(parts.parts == Parts::per_head && tensor.sizes[0] != tensors.front().sizes[0],
                "expected heads of one size, got ", tensors.front().sizes[0], " and, in ", in_quotes(prefix_ + name),
                ", ", tensor.sizes[0]);
      refuse_if(parts.parts == Parts::fused && tensor.sizes[0] % 3 != 0, "expected Q, K and V in ",
                in_quotes(prefix_ + name), ", so a size that 3 divides, got ", tensor.sizes[0]);
    }
    if (parts.parts == Parts::fused) tensors = split(tensors.front(), 3);
    const std::size_t count = tensors.size() / 3;
    const std::span all(tensors);
    return {concatenated(all.subspan(0, count)), concatenated(all.subspan(count, count)),
            concatenated(all.subspan(2 * count))};
  }

  void read_weights() { module_.weights = take_parts(spec_.weights, true); }

  void read_biases() {
    std::vector<std::string> found, missing;
    for (const std::string& name : part_names(spec_.biases, module_.info.num_heads)) {
      (has(name) ? found : missing).push_back(name);
    }
    if (found.empty()) return;
    refuse_if(!missing.empty(), "expected biases for all of Q, K and V or for none, got ", in_quotes(found.front()),
              ", and not ", missing.empty() ? "" : in_quotes(missing.front()));
    module_.biases = take_parts(spec_.biases, false);
  }

  /// A tensor that the layout does not explain may change what the module computes.
  void check_leftovers() {
    for (const SafetensorsFile::Entry& entry : file_.entries()) {
      if (!entry.name.starts_with(prefix_) || used_.contains(entry.name)) continue;
      const std::string name = entry.name.substr(prefix_.size());
      if (is_mask_buffer(spec_, name)) continue;
      if (name == "rotary_emb.inv_freq") {
        module_.info.notes.push_back(sentence(in_quotes(file_.path()), ": passed over ", in_quotes(entry.name),
                                              ": the variants turn no queries and keys by their positions"));
        continue;
      }
      refuse_if(true, "expected only what the layout ", spec_.name, " has under the prefix ", in_quotes(prefix_),
                ", got ", in_quotes(name), " too");
    }
  }

  void check_sizes() {
    WeightFileInfo& info = module_.info;
    const std::array<RawTensor, 3>& w = module_.weights;
    const std::int64_t d_out = module_.d_out(), key_rows = w[1].sizes[0];
    refuse_if(d_out < 1 || module_.d_in() < 1, "expected d_out and d_in of at least 1, got a query weight of sizes ",
              to_string(w[0].sizes));
    refuse_if(d_out % info.num_heads != 0, "expected a d_out that ", info.num_heads, " heads divide, got ", d_out);
    const std::int64_t head_dim = d_out / info.num_heads;
    info.kv_heads = key_rows / head_dim;
    refuse_if(key_rows % head_dim != 0 || key_rows == 0 || info.num_heads % info.kv_heads != 0,
              "expected a key weight of rows for 1 to ", info.num_heads, " heads of size ", head_dim,
              " whose number divides ", info.num_heads, ", got ", key_rows, " rows");
    refuse_if(w[2].sizes[0] != key_rows, "expected as many rows in the value weight as in the key weight, ", key_rows,
              ", got ", w[2].sizes[0]);
    refuse_if(!(module_.out_weight.sizes == Dims{d_out, d_out}), "expected sizes ", to_string(Dims{d_out, d_out}),
              " for ", in_quotes(prefix_ + std::string(spec_.out_weight)), ", got ",
              to_string(module_.out_weight.sizes));
    refuse_if(module_.out_bias && !(module_.out_bias->sizes == Dims{d_out}), "expected sizes ", to_string(Dims{d_out}),
              " for ", in_quotes(prefix_ + std::string(spec_.out_bias)), ", got ",
              module_.out_bias ? to_string(module_.out_bias->sizes) : "");
    for (std::size_t part = 0; part < 3 && module_.biases; ++part) {
      const RawTensor& bias = (*module_.biases)[part];
      refuse_if(bias.sizes[0] != w[part].sizes[0], "expected a bias of ", w[part].sizes[0], " numbers for ",
                std::array{"Q", "K", "V"}[part], ", got ", bias.sizes[0]);
    }
  }

  const SafetensorsFile& file_;
  const WeightSource& source_;
  const std::string prefix_;
  const LayoutSpec& spec_;
  std::set<std::string> used_;
  RawModule module_;
};

}  // namespace

RawModule read_module(const SafetensorsFile& file, const WeightSource& source) {
  return ModuleReader(file, source).read();
}

}  // namespace ennead::io
