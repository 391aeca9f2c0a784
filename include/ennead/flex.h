// SPDX-License-Identifier: Apache-2.0
// FlexAttention's two callables: mask_mod(b, h, q, k) -> bool and score_mod(score, b, h, q, k).
#pragma once
