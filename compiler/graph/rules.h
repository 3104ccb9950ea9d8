/* SPDX-License-Identifier: Apache-2.0
 *
 * Declares the rules named in ops.def. Several rows share one; declaring it again is harmless.
 */
#ifndef TSR_COMPILER_GRAPH_RULES_H
#define TSR_COMPILER_GRAPH_RULES_H

#include "compiler/graph/rule.h"

#define X(ID, mnemonic, Class, KIND, check, gradient, forward, lowering, rows)                     \
    bool tsr_check_##check(tsr_rule *rule);                                                        \
    bool tsr_gradient_##gradient(tsr_gradient *of);                                                \
    bool tsr_forward_##forward(tsr_tangent *of);                                                   \
    bool tsr_lower_##lowering(MlirOperation op);
#include "compiler/graph/ops.def"
#undef X

/* A kernel of its own computes this attention; else it becomes simpler ops. One that drops weights
 * has no kernel before it has step, seed and numbers of heads as operands. */
bool tsr_attention_is_kept(MlirOperation op);
/* Has attribute `dropout`, and nothing yet that it draws with. */
bool tsr_attention_will_sample(MlirOperation op);
/* `lr_schedule` of an optimizer's op, which need not be there; the rate of step `step`, in f64. */
bool tsr_lr_schedule_check(const tsr_rule *rule);
bool tsr_lr_schedule_is_given(MlirOperation op);
MlirValue tsr_lr_schedule_emit(tsr_builder *b, MlirOperation op, double lr, MlirValue step);
/* `clip_norm` of minimize, which need not be there. */
bool tsr_clip_check(const tsr_rule *rule);
bool tsr_clip_is_given(MlirOperation op);
/* The norm of all gradients as one vector, of this type: the square root of their squares' sums,
 * taken in `parts` parts and added by the binary tree. */
MlirValue tsr_global_norm_emit(tsr_builder *b, size_t count, const MlirValue *gradients,
                               uint64_t parts, tsr_dtype dtype);
/* What gradients of this norm are multiplied by: min(clip_norm / (norm + 1e-6), 1). */
MlirValue tsr_clip_emit(tsr_builder *b, MlirOperation op, MlirValue norm);
/* conv2d and conv2d_grad_input: a kernel of its own computes it; else it becomes a matmul. With
 * portable numerics (`is_native` false) those of bf16 and f16 are kept: a matmul would need copies
 * in f32 of its operands. */
bool tsr_conv_is_kept(MlirOperation op, bool is_native);
/* What the samples of a random op depend on besides its stream. */
typedef struct tsr_samples {
    MlirValue step, seed;
    MlirValue iteration; /* of the loops that it stands in, scalars i64; null: none */
} tsr_samples;
/* Scalars i64: "tessera.step", "tessera.seed". */
MlirValue tsr_random_source(tsr_builder *b, const char *name);
/* dropout of a train entry, random_uniform, random_normal become what they are by tessera.philox,
 * attention that drops weights gets what it draws with; `samples` may be NULL: outside of loops. */
bool tsr_random_lower(MlirOperation op, const tsr_samples *samples);
/* The same of attention alone. */
bool tsr_attention_sample(MlirOperation op, const tsr_samples *samples);
/* How many numbers the op draws, false where that is no 64-bit number. */
bool tsr_random_count(MlirOperation op, uint64_t *out_count);
/* Of the entry that the op stands in, or whose branch it stands in: does it train? */
bool tsr_random_trains(MlirOperation op);
/* i64: the place of each element in a tensor of this shape, of as many dims or 1 where it has 1. */
MlirValue tsr_random_places(tsr_builder *b, const tsr_shape *shape);
/* x / (1 - rate), or 0 with probability `rate`, by the shared numbers that the op's stream has at
 * `elements`. */
MlirValue tsr_random_drop(tsr_builder *b, MlirValue x, double rate, int64_t stream,
                          MlirValue elements, MlirValue step, MlirValue seed);
/* A gather of the first elements along its axis, in their order, which is a slice. */
bool tsr_takes_first(MlirOperation gather);
/* The few best of contiguous lines have a kernel of their own; else all are sorted. */
bool tsr_top_k_is_kept(MlirOperation op);
/* Ops that only move elements, and those that have kernels for bf16 and f16: decompose.c. */
bool tsr_takes_small(tsr_graph_op id, bool is_native);

#endif
