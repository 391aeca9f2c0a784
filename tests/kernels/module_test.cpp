// SPDX-License-Identifier: Apache-2.0
// kernels: the fused module on every instruction set, against the float64 oracle.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/kernels.h"
#include "oracle/oracle.h"
#include "support/contexts.h"
#include "support/kernel_operands.h"

namespace ennead::test {
namespace {

struct ModuleShape {
  std::int64_t batch, num_tokens, d_in, d_out, num_heads;
  bool causal, biases;
};

template <class T>
class ModuleCase {
 public:
  ModuleCase(const ModuleShape& shape, Random& random, Layout layout = Layout::any_without_overlap)
      : shape_(shape),
        x_({shape.batch, shape.num_tokens, shape.d_in}, random, layout),
        out_({shape.batch, shape.num_tokens, shape.d_out}, random, layout) {
    for (auto& w : weights_) {
      const bool is_out = &w == &weights_[3];
      w = std::make_unique<Operand<T, 2>>(std::array{shape.d_out, is_out ? shape.d_out : shape.d_in}, random, layout);
      const T factor = T(1) / std::sqrt(static_cast<T>(w->view().size(1)));
      for (std::int64_t i = 0; i < w->view().size(0); ++i) {
        for (std::int64_t j = 0; j < w->view().size(1); ++j) w->mutable_view()(i, j) *= factor;
      }
    }
    for (auto& b : biases_) b = std::make_unique<Operand<T, 1>>(std::array{shape.d_out}, random, Layout::contiguous);
  }

  /// Multiplies a token, or a row of a matrix of weights, by a power of two.
  void scale_token(std::int64_t batch, std::int64_t token, int power) {
    scale_row(x_.mutable_view()[batch], token, power);
  }
  void scale_weights(std::size_t which, std::int64_t row, int power) {
    scale_row(weights_[which]->mutable_view(), row, power);
  }

  kernels::ModuleArgs<T> args() {
    kernels::ModuleArgs<T> all;
    all.x = x_.view();
    all.out = out_.mutable_view();
    all.num_heads = shape_.num_heads;
    all.causal = shape_.causal;
    return all;
  }

  void run(Isa isa, Executor& executor, Fill fill = Fill::nan) {
    const auto& kernels = kernels::kernels_for<T>(isa);
    kernels::ModuleWeights<T> weights;
    weights.W_query = weights_[0]->view();
    weights.W_key = weights_[1]->view();
    weights.W_value = weights_[2]->view();
    weights.out_proj = weights_[3]->view();
    if (shape_.biases) {
      weights.b_query = biases_[0]->view().data;
      weights.b_key = biases_[1]->view().data;
      weights.b_value = biases_[2]->view().data;
      weights.b_out = biases_[3]->view().data;
    }
    weights.num_heads = shape_.num_heads;
    AlignedBuffer<PackedByte> packed(kernels.module_packed_bytes(shape_.d_in, shape_.d_out, shape_.num_heads), fill);
    kernels.pack_module(weights, packed.data());
    run_packed(isa, executor, args(), packed.data(), fill);
    inside_ = inside_ && packed.intact();
  }

  void run_packed(Isa isa, Executor& executor, kernels::ModuleArgs<T> all, const PackedByte* packed,
                  Fill fill = Fill::nan) {
    const auto& kernels = kernels::kernels_for<T>(isa);
    out_.poison();
    all.packed = packed;
    AlignedBuffer<std::byte> scratch(kernels.module_scratch(all, executor.num_threads()), fill);
    kernels.module(executor, all, scratch.data());
    inside_ = out_.intact() && scratch.intact();
  }

  std::vector<T> results() {
    std::vector<T> values;
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      for (std::int64_t t = 0; t < shape_.num_tokens; ++t) {
        for (std::int64_t d = 0; d < shape_.d_out; ++d) values.push_back(out_.view()(b, t, d));
      }
    }
    return values;
  }

  testing::AssertionResult right() {
    if (!inside_) return testing::AssertionFailure() << "wrote outside its memory";
    oracle::Module module;
    module.d_in = shape_.d_in;
    module.d_out = shape_.d_out;
    module.num_heads = shape_.num_heads;
    std::vector<double>* const matrices[] = {&module.W_query, &module.W_key, &module.W_value, &module.out_weight};
    std::vector<double>* const vectors[] = {&module.b_query, &module.b_key, &module.b_value, &module.out_bias};
    for (std::size_t i = 0; i < 4; ++i) {
      const auto w = weights_[i]->view();
      for (std::int64_t n = 0; n < w.size(0); ++n) {
        for (std::int64_t k = 0; k < w.size(1); ++k) matrices[i]->push_back(static_cast<double>(w(n, k)));
      }
      for (std::int64_t n = 0; shape_.biases && n < shape_.d_out; ++n) {
        vectors[i]->push_back(static_cast<double>(biases_[i]->view()(n)));
      }
    }
    std::vector<double> x;
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      for (std::int64_t t = 0; t < shape_.num_tokens; ++t) {
        for (std::int64_t d = 0; d < shape_.d_in; ++d) x.push_back(static_cast<double>(x_.view()(b, t, d)));
      }
    }
    oracle::Rules rules;
    rules.causal = shape_.causal;
    const std::vector<std::int64_t> rows = oracle::sample_rows(shape_.num_tokens, 40);
    const std::vector<double> want = oracle::module_rows(module, x, shape_.batch, shape_.num_tokens, rules, rows);
    const double bound = 400 * static_cast<double>(std::numeric_limits<T>::epsilon());
    std::size_t at = 0;
    for (std::int64_t b = 0; b < shape_.batch; ++b) {
      for (const std::int64_t t : rows) {
        for (std::int64_t d = 0; d < shape_.d_out; ++d, ++at) {
          const double got = static_cast<double>(out_.view()(b, t, d));
          if (!(std::abs(got - want[at]) <= bound)) {
            return testing::AssertionFailure()
                   << "out[" << b << ", " << t << ", " << d << "] of tokens " << shape_.num_tokens << " d_in "
                   << shape_.d_in << " d_out " << shape_.d_out << " heads " << shape_.num_heads << ": expected "
                   << want[at] << ", got " << got;
          }
        }
      }
    }
    return testing::AssertionSuccess();
  }

 private:
  static void scale_row(const View<T, 2>& rows, std::int64_t row, int power) {
    for (std::int64_t j = 0; j < rows.size(1); ++j) rows(row, j) = std::ldexp(rows(row, j), power);
  }

  ModuleShape shape_;
  Operand<T, 3> x_, out_;
  std::unique_ptr<Operand<T, 2>> weights_[4];
  std::unique_ptr<Operand<T, 1>> biases_[4];
  bool inside_ = true;
};

template <class T>
class KernelsModule : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(KernelsModule, Types);

// Mutants: a head's columns at another head's place; a bias forgotten or scaled twice; the last step of
// tokens dropped; x or out taken for contiguous; padding of an odd head_dim read.
TYPED_TEST(KernelsModule, AnyShape) {
  const auto pool = make_thread_pool(2);
  Random random(1);
  const std::vector<std::int64_t> tokens{1, 2, 3, 7, 16, 17, 63, 64, 65, 129, 257, 300};
  const std::vector<std::int64_t> head_dims{1, 3, 8, 16, 20, 33};
  for_each_isa([&](Isa isa) {
    for (int i = 0; i < 30; ++i) {
      ModuleShape shape;
      shape.batch = random.integer(1, 3);
      shape.num_tokens = tokens[static_cast<std::size_t>(i) % tokens.size()];
      shape.num_heads = random.integer(1, 4);
      shape.d_in = random.integer(1, 70);
      shape.d_out = shape.num_heads * random.pick(head_dims);
      shape.causal = random.coin(0.7);
      shape.biases = random.coin();
      ModuleCase<TypeParam> module(shape, random);
      module.run(isa, *pool);
      ASSERT_TRUE(module.right()) << "case " << i;
    }
  });
}

// Mutants: a chunk of depth that starts from the bias again, or at the wrong weights.
TYPED_TEST(KernelsModule, DeepInput) {
  const auto pool = make_thread_pool(2);
  Random random(2);
  for_each_isa([&](Isa isa) {
    ModuleCase<TypeParam> module({1, 40, 2100, 24, 2, true, true}, random);
    module.run(isa, *pool);
    ASSERT_TRUE(module.right());
  });
}

// Mutants: memory for one of the two products too small for the other, whose depth and width are not the same.
TEST(KernelsModuleFloat, InputDeeperThanTheOutputIsWide) {
  Random random(4);
  for_each_isa([&](Isa isa) {
    ModuleCase<float> module({1, 330, 1024, 416, 13, true, true}, random);
    std::vector<float> first;
    for (const int threads : {1, 2}) {
      const auto executor = make_thread_pool(threads);
      module.run(isa, *executor);
      ASSERT_TRUE(module.right());
      if (first.empty()) first = module.results();
      ASSERT_EQ(first, module.results()) << threads << " threads";
    }
  });
}

// Weights of one head that do not stay in the second level cache beside the tokens; memory that holds ordinary numbers,
// since AMX computes in another way what it takes for NaN. Mutants: a projection dropped, so that attention runs over
// what memory held; rows of a step split from another's place.
TYPED_TEST(KernelsModule, DeepInputAndWideHeads) {
  const auto pool = make_thread_pool(2);
  Random random(6);
  for_each_isa([&](Isa isa) {
    for (const ModuleShape& shape :
         {ModuleShape{1, 70, 1056, 80, 2, true, true}, ModuleShape{2, 40, 800, 70, 1, false, false},
          ModuleShape{1, 270, 1030, 33, 1, true, false}, ModuleShape{1, 20, 2050, 132, 2, true, true}}) {
      ModuleCase<TypeParam> module(shape, random);
      module.run(isa, *pool);
      ASSERT_TRUE(module.right());
      const std::vector<TypeParam> want = module.results();
      module.run(isa, *pool, Fill::ordinary_number);
      ASSERT_EQ(want, module.results()) << "tokens " << shape.num_tokens << ", d_in " << shape.d_in;
    }
  });
}

// Mutant: anything read that was not written: NaN or an ordinary number there must not matter.
TYPED_TEST(KernelsModule, WhatMemoryHeldDoesNotMatter) {
  Random random(7);
  for_each_isa([&](Isa isa) {
    for (const int threads : {1, 3}) {
      const auto executor = make_thread_pool(threads);
      ModuleCase<TypeParam> module({2, 301, 24, 66, 2, true, true}, random);
      module.scale_token(1, 200, -60);
      module.run(isa, *executor);
      const std::vector<TypeParam> want = module.results();
      module.run(isa, *executor, Fill::ordinary_number);
      ASSERT_EQ(want, module.results());
    }
  });
}

// Tokens and weights far from 1, which some kernels compute in another way, among ordinary ones.
// Mutants: such a token, or such weights, taken for ordinary ones; the keys of one head used for the next; which of
// the queries are out of the ordinary looked up in another block.
TYPED_TEST(KernelsModule, RowsFarFromOneAmongOthers) {
  Random random(5);
  for_each_isa([&](Isa isa) {
    for (const int which : {-1, 0, 1, 2, 3}) {  // tokens only, or rows of one of the matrices too
      for (const bool causal : {true, false}) {
        if (which >= 0 && !causal) continue;
        ModuleCase<TypeParam> module({2, 270, 24, 72, 2, causal, false}, random);
        for (std::int64_t token = 3; token < 270; token += 83) module.scale_token(1, token, -60);
        if (which >= 0) module.scale_weights(static_cast<std::size_t>(which), 3, -60);
        std::vector<TypeParam> first;
        for (const int threads : {1, 3}) {
          const auto executor = make_thread_pool(threads);
          module.run(isa, *executor);
          if (first.empty()) {
            ASSERT_TRUE(module.right()) << "matrix " << which;
            first = module.results();
          }
          ASSERT_EQ(first, module.results()) << "matrix " << which << ", " << threads << " threads";
        }
      }
    }
  });
}

// Mutants: bits that depend on which worker ran a head, on scratch left from another, or on neighbours.
TYPED_TEST(KernelsModule, SameBitsForAnyThreads) {
  Random random(3);
  for_each_isa([&](Isa isa) {
    ModuleCase<TypeParam> module({3, 290, 40, 48, 3, true, true}, random);
    const auto serial = make_serial_executor();
    module.run(isa, *serial);
    const std::vector<TypeParam> want = module.results();
    for (const int threads : {2, 3, 7}) {
      const auto pool = make_thread_pool(threads);
      module.run(isa, *pool);
      const std::vector<TypeParam> got = module.results();
      ASSERT_EQ(std::memcmp(want.data(), got.data(), want.size() * sizeof(TypeParam)), 0) << threads << " threads";
    }
  });
}

}  // namespace
}  // namespace ennead::test
