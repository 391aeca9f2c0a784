// SPDX-License-Identifier: Apache-2.0
// An engine that has its own threads lends them to ennead: derive from Executor.
#include <ennead/ennead.h>

#include <atomic>
#include <iostream>
#include <thread>
#include <vector>

namespace {

// Stands for the engine's own pool; this one starts its threads anew for each run.
class EngineThreads final : public ennead::Executor {
 public:
  int num_threads() const noexcept override { return 2; }

  void run(std::int64_t n, ennead::Task task) override {
    std::atomic<std::int64_t> next{0};
    const auto work = [&](int worker) {
      for (std::int64_t index = next++; index < n; index = next++) task(index, worker);
    };
    std::thread other(work, 1);
    work(0);
    other.join();
  }
};

}  // namespace

int main() {
  ennead::Context::Options options;
  options.executor = std::make_shared<EngineThreads>();
  const ennead::Context context(options);
  const ennead::Config config{.d_in = 96, .d_out = 96, .context_length = 64, .num_heads = 4};
  const auto weights = ennead::Weights<float>::random(context, config, 1);
  const ennead::PackedModule<float> attention(config, weights);

  // The engine's own memory, without a Tensor around it.
  const std::vector<float> x(2 * 64 * 96, 0.5F);
  std::vector<float> y(x.size());
  ennead::multi_head_attention(ennead::View<const float, 3>::contiguous(x.data(), {2, 64, 96}), attention,
                               ennead::View<float, 3>::contiguous(y.data(), {2, 64, 96}));
  std::cout << "y[0, 0, 0] = " << y[0] << '\n';
}
