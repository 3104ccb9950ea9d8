/* SPDX-License-Identifier: Apache-2.0
 *
 * Declares the rules named in ops.def. Several rows share one; declaring it again is harmless.
 */
#ifndef TSR_COMPILER_GRAPH_RULES_H
#define TSR_COMPILER_GRAPH_RULES_H

#include "compiler/graph/rule.h"

#define X(ID, mnemonic, Class, KIND, check, gradient, forward, lowering, rows, dims)               \
    bool tsr_check_##check(tsr_rule *rule);                                                        \
    bool tsr_gradient_##gradient(tsr_gradient *of);                                                \
    bool tsr_forward_##forward(tsr_tangent *of);                                                   \
    bool tsr_lower_##lowering(MlirOperation op);
#include "compiler/graph/ops.def"
#undef X

/* True if a kernel of its own computes this attention; else it is lowered to simpler ops. An
 * attention that drops weights has no kernel until step, seed and head numbers are operands. */
bool tsr_attention_is_legal(MlirOperation op);
/* Has attribute `dropout`, but no operands for its random numbers yet. */
bool tsr_attention_will_sample(MlirOperation op);
/* True if a cast says neither how it rounds nor that it saturates. */
bool tsr_cast_is_plain(MlirOperation op);
/* The optional `lr_schedule` of an optimizer's op; the rate of step `step`, in f64 like `lr`. */
bool tsr_lr_schedule_check(const tsr_rule *rule);
bool tsr_lr_schedule_is_given(MlirOperation op);
MlirValue tsr_lr_schedule_emit(tsr_builder *b, MlirOperation op, MlirValue lr, MlirValue step);
/* Emits the numbers of an optimizer's op: constants, or, with a prefix, ops hyperparameter whose
 * keys begin with it. */
typedef struct tsr_numbers {
    tsr_builder *builder;
    const char *prefix; /* borrowed; NULL: constants */
} tsr_numbers;
tsr_numbers tsr_numbers_of(tsr_builder *b, MlirOperation op);
MlirValue tsr_number_emit(const tsr_numbers *numbers, const char *name, double value,
                          tsr_dtype dtype);
/* The optional `clip_norm` of minimize. */
bool tsr_clip_check(const tsr_rule *rule);
bool tsr_clip_is_given(MlirOperation op);
/* The norm of all gradients as one vector, of this type: the square root of the sum of their
 * squares, which is computed in `parts` parts and added by the binary tree. */
MlirValue tsr_global_norm_emit(tsr_builder *b, size_t count, const MlirValue *gradients,
                               uint64_t parts, tsr_dtype dtype);
/* The factor of gradients with this norm: min(clip_norm / (norm + 1e-6), 1). */
MlirValue tsr_clip_emit(tsr_builder *b, MlirOperation op, MlirValue norm);
/* Fails unless the operands are floats of one type, or integers of 8 bits; or words, of a product
 * that tessera-decompose made. The result's type is i32 for integers. */
bool tsr_rule_factors(const tsr_rule *rule, const char *a, const char *b, tsr_dtype *out_result);
/* matmul and conv2d: of i8 and ui8, and so lowered to products of words. */
bool tsr_is_product_of_bytes(MlirOperation op);
void tsr_lower_conv2d_of_bytes(MlirOperation op);
/* conv2d and conv2d_grad_input: true if a kernel of its own computes it; else it becomes a matmul.
 * With portable numerics (`is_native` false), those on bf16 and f16 are kept: a matmul would need
 * f32 copies of its operands. */
bool tsr_conv_is_legal(MlirOperation op, bool is_native);
/* The values, in addition to its stream, that determine the samples of a random op. */
typedef struct tsr_samples {
    MlirValue step, seed;
    MlirValue iteration; /* iteration of the enclosing loops, scalar i64; null: not in a loop */
} tsr_samples;
/* Scalars i64: "tessera.step", "tessera.seed". */
MlirValue tsr_random_source(tsr_builder *b, const char *name);
/* The seed of a random op: that of its deterministic function, else that of the run. `samples`:
 * those of the loop around it, or NULL. */
MlirValue tsr_random_seed(tsr_builder *b, MlirOperation op, const tsr_samples *samples);
/* Lowers dropout of a train entry, random_uniform and random_normal to ops on tessera.philox, and
 * gives attention that drops weights the operands for its random numbers; `samples` may be NULL:
 * outside of loops. */
bool tsr_random_lower(MlirOperation op, const tsr_samples *samples);
/* The same for attention only. */
bool tsr_attention_sample(MlirOperation op, const tsr_samples *samples);
/* The number of random numbers that the op uses; false if it exceeds 64 bits. */
bool tsr_random_count(MlirOperation op, uint64_t *out_count);
/* True if the entry that contains the op, directly or in a branch, trains. */
bool tsr_random_trains(MlirOperation op);
/* i64: the index of each element in a tensor of this shape; the result has the same rank, with
 * size 1 for dims of size 1. */
MlirValue tsr_random_positions(tsr_builder *b, const tsr_shape *shape);
/* x / (1 - rate), or 0 with probability `rate`, by the shared random numbers of the op's stream at
 * `elements`. */
MlirValue tsr_random_drop(tsr_builder *b, MlirValue x, double rate, int64_t stream,
                          MlirValue elements, MlirValue step, MlirValue seed);
/* True for a gather of the first elements along its axis, in order, which is a slice. */
bool tsr_takes_first(MlirOperation gather);
/* The k largest of contiguous lines have a kernel of their own, if k is small; else all elements
 * are sorted. */
bool tsr_top_k_is_legal(MlirOperation op);
/* Ops that tessera-decompose leaves to tessera-lower-experts. */
static inline bool tsr_moe_is_late(tsr_op id) {
    return id == TSR_GRAPH_MOE_DISPATCH || id == TSR_GRAPH_MOE_COMBINE || id == TSR_GRAPH_MOE_DOT;
}
/* Some reduced dim has another size than 1. */
bool tsr_reduction_is_legal(MlirOperation op);
/* True for ops that only move elements, and ops that have kernels for bf16 and f16: decompose.c. */
bool tsr_takes_small(tsr_op id, bool is_native);

/* The optimizer of a minimize for one parameter: with the learning rate and the weight decay of its
 * group (tessera.param). Emits an error at the parameter and returns false if the learning rate of
 * the group is not finite, or is 0 although neither of its factors is. */
bool tsr_optimizer_for(MlirOperation minimize, MlirOperation param, MlirAttribute *out_optimizer);
/* For TSR_GROUP_NAME: the optimizer of the minimize, and what the group changes in it; null without
 * a group. */
MlirAttribute tsr_optimizer_group(MlirOperation minimize, MlirOperation param);

#endif
