// SPDX-License-Identifier: Apache-2.0
#include "commands/run_job.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/for_each_element.h"
#include "ennead/ops.h"
#include "harness/numbers.h"
#include "io/text.h"
#include "usage_error.h"

namespace ennead::cli {
namespace {

std::string in_file(const std::string& path, const std::string& what) {
  return fmt::format("{}: {}", io::in_quotes(path), what);
}

template <class T>
bool all_finite(const Tensor<T>& tensor) {
  if (tensor.empty()) return true;
  Context::Options options;
  options.executor = make_serial_executor();  // one thread sets the flag
  const auto same = Tensor<T>::borrow(Context(options), tensor.data(), tensor.sizes(), tensor.strides());
  bool finite = true;
  base::for_each_element([&](const T& value) { finite = finite && std::isfinite(value); }, same);
  return finite;
}

template <class T>
class Runner {
 public:
  Runner(const RunJob& job, const RunHooks& hooks) : job_(job), hooks_(hooks), context_(job.work.context()) {}

  bool run() {
    read_input();
    load_variant();
    read_options();
    open_outputs();
    for (std::int64_t start = 0; start < batch(); start += chunk_) {
      if (hooks_.stop()) return false;
      compute(start, std::min(chunk_, batch() - start));
    }
    // All that can fail comes before the first file gets its name.
    for (auto& writer : writers_) writer.flush();
    if (hooks_.stop()) return false;
    for (auto& writer : writers_) writer.commit();
    return true;
  }

 private:
  std::int64_t batch() const { return x_.size(0); }
  std::int64_t num_tokens() const { return x_.size(1); }

  void warn_unless_finite(bool finite, const std::string& path, const char* what) const {
    if (!finite) hooks_.warn(in_file(path, fmt::format("{} NaN or infinity, which goes into the results", what)));
  }

  void read_input() {
    const StoredArray info = read_npy_info(job_.input);
    if (info.sizes.rank() != 3) {
      raise(in_file(job_.input, fmt::format("expected [batch, num_tokens, d_in], got {}", to_string(info.sizes))));
    }
    if (info.dtype == DType::bfloat16) hooks_.warn(in_file(job_.input, "holds uint16, read as the bits of bfloat16"));
    hooks_.progress(fmt::format("reading {}", job_.input));
    x_ = read_npy<T>(context_, job_.input);
    warn_unless_finite(all_finite(x_), job_.input, "holds");
  }

  void load_variant() {
    hooks_.progress(fmt::format("reading {}", job_.weights));
    LoadedWeights<T> loaded = load_weights<T>(context_, job_.weights, job_.source);
    for (const std::string& note : loaded.info.notes) hooks_.warn(note);
    const Weights<T>& w = loaded.weights;
    bool finite = true;
    for (const Tensor<T>* each :
         {&w.W_query, &w.W_key, &w.W_value, &w.b_query, &w.b_key, &w.b_value, &w.out_proj_weight, &w.out_proj_bias}) {
      finite = finite && all_finite(*each);
    }
    warn_unless_finite(finite, job_.weights, "the weights hold");
    Config config = loaded.config;
    config.is_causal = job_.is_causal;
    config.context_length = std::max<std::int64_t>(num_tokens(), 1);
    require_expected(config);
    if (x_.size(2) != config.d_in) {
      raise(in_file(job_.input, fmt::format("expected [batch, num_tokens, {}], as the weights in {} have d_in, got {}",
                                            config.d_in, io::in_quotes(job_.weights), to_string(x_.sizes()))));
    }
    variant_ = make_variant(*job_.variant, config, loaded.weights);
  }

  void require_expected(const Config& config) const {
    const std::pair<const char*, std::int64_t> actual[] = {
        {"--batch", batch()},      {"--tokens", num_tokens()},    {"--d-in", config.d_in},
        {"--d-out", config.d_out}, {"--heads", config.num_heads}, {"--qkv-bias", config.qkv_bias ? 1 : 0}};
    for (const auto& [flag, value] : job_.expected) {
      for (const auto& [name, got] : actual) {
        if (flag == name && value != got) {
          throw UsageError(fmt::format("{}: expected what the files hold, {}, got {}", flag, got, value));
        }
      }
    }
  }

  /// A boolean mask in which true allows.
  Tensor<bool> read_allowed(const MaskFile& file, const char* flag) const {
    if (!file.means) {
      throw UsageError(fmt::format("{0}: expected {0}-means allow or block for a boolean mask, got neither", flag));
    }
    const auto mask = read_npy<bool>(context_, file.path);
    return *file.means == MaskMeaning::allow ? mask : AttentionMask<T>::block(mask).allowed;
  }

  void read_options() {
    options_.need_weights = !job_.attn_weights.empty();
    options_.average_attn_weights = !job_.per_head;
    if (!job_.mask.path.empty()) options_.attn_mask = read_mask();
    if (!job_.key_padding_mask.path.empty()) {
      const Tensor<bool> allowed = read_allowed(job_.key_padding_mask, "--key-padding-mask");
      options_.key_padding_block = AttentionMask<T>::block(allowed).allowed;
    }
    require(variant_->check(x_, options_));
    require(check_attn_mask(options_.attn_mask, batch(), variant_->config().num_heads, num_tokens(), num_tokens()));
  }

  AttentionMask<T> read_mask() const {
    const MaskFile& file = job_.mask;
    if (read_npy_info(file.path).dtype == DType::boolean) return AttentionMask<T>::allow(read_allowed(file, "--mask"));
    if (file.means) {
      throw UsageError(fmt::format("--mask-means: expected a boolean mask, got numbers in {}, which are added",
                                   io::in_quotes(file.path)));
    }
    const auto bias = read_npy<T>(context_, file.path);
    bool ones = false, others = false;
    const auto flat = contiguous(bias);
    for (std::int64_t i = 0; i < flat.num_elements(); ++i) {
      const T value = flat.data()[i];
      ones = ones || value == 1;
      others = others || !(value == 0 || value == 1);
    }
    if (ones && !others) {
      hooks_.warn(in_file(file.path,
                          "holds only 0 and 1; numbers are added to the scores and mask nothing (a boolean array "
                          "with --mask-means would)"));
    }
    return AttentionMask<T>::additive(bias);
  }

  /// Finds out before computing what cannot be written or does not fit.
  void open_outputs() {
    const Config& config = variant_->config();
    const std::int64_t tokens = num_tokens();
    writers_.emplace_back(job_.output, Dims{batch(), tokens, config.d_out});
    if (options_.need_weights) {
      writers_.emplace_back(job_.attn_weights, job_.per_head ? Dims{batch(), config.num_heads, tokens, tokens}
                                                             : Dims{batch(), tokens, tokens});
    }
    // Batch items do not know of each other, so that pieces give the same bits in less memory.
    constexpr std::int64_t kElementsPerChunk = std::int64_t{1} << 24;
    const std::int64_t item = std::max<std::int64_t>(tokens * std::max(config.d_in, config.d_out), 1);
    chunk_ = std::clamp<std::int64_t>(kElementsPerChunk / item, 1, std::max<std::int64_t>(batch(), 1));
    const std::size_t bytes = variant_->workspace_bytes(context_, chunk_, tokens);
    if (const Refusal refusal = context_.arena().check(bytes); !refusal.ok()) {
      raise(fmt::format("{} ({}) needs {} bytes ({}) for {} of {} sequences of {} tokens: {}", job_.variant->number,
                        job_.variant->slug, bytes, harness::bytes(static_cast<double>(bytes)), chunk_, batch(), tokens,
                        refusal.reason()));
    }
  }

  /// The part of a mask that belongs to some batch items: axis 0 counts them, or them times heads.
  template <class Element>
  Tensor<Element> for_items(const Tensor<Element>& mask, std::int64_t start, std::int64_t count) const {
    if (mask.empty() || mask.rank() < 3 || mask.size(0) == 1) return mask;
    const std::int64_t rows = mask.rank() == 3 ? variant_->config().num_heads : 1;
    return narrow(mask, 0, start * rows, count * rows);
  }

  void compute(std::int64_t start, std::int64_t count) {
    hooks_.progress(fmt::format("{}: sequence {} of {}", job_.variant->slug, start + 1, batch()));
    CallOptions<T> options = options_;
    options.attn_mask.allowed = for_items(options_.attn_mask.allowed, start, count);
    options.attn_mask.bias = for_items(options_.attn_mask.bias, start, count);
    if (!options_.key_padding_block.empty()) {
      options.key_padding_block = narrow(options_.key_padding_block, 0, start, count);
    }
    const CallResult<T> result = (*variant_)(narrow(x_, 0, start, count), options);
    writers_.front().append(result.output);
    if (options_.need_weights) writers_.back().append(result.attn_weights);
  }

  const RunJob& job_;
  const RunHooks& hooks_;
  Context context_;
  Tensor<T> x_;
  std::unique_ptr<Variant<T>> variant_;
  CallOptions<T> options_;
  std::vector<NpyWriter<T>> writers_;
  std::int64_t chunk_ = 1;
};

}  // namespace

template <class T>
bool run_job(const RunJob& job, const RunHooks& hooks) {
  return Runner<T>(job, hooks).run();
}

template bool run_job<float>(const RunJob&, const RunHooks&);
template bool run_job<double>(const RunJob&, const RunHooks&);

}  // namespace ennead::cli
