/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedule IR -> Tile IR: each tsched.func is replaced by one tile.func of the same name. Its
 * arguments are the group's inputs, then its outputs, as memrefs (ui8 and i1 are stored as i8); its
 * `grid` is the number of independent programs. Entries are not changed, with these exceptions. On
 * a CPU products compute the ops after them as epilogues if they hide the cost of these ops
 * (tsr_pass_fuse_epilogues), products widen matrices of bf16 and f16 (tsr_pass_narrow), and weights
 * are packed (tsr_schedule_pack). A GPU runs elementwise groups of one expression as one group
 * (tsr_schedule_batch). With native numerics, factors of products have a pitch if that saves time:
 * arguments are memrefs with that layout (gpu/pitch.h). The module's attribute TSR_TARGET_NAME
 * names the target.
 *
 * Numerics, the same for every target with FMA, grid split and tile shape; this is version 2
 * (TSR_NUMERICS_VERSION of manifests/config.h):
 *
 * - matmul: chain(first, last) is acc = fma(a[k], b[k], acc) for k = first ... last - 1, from
 *   acc = 0. An element of up to 2,048 steps is chain(0, K). A longer one is cut into chunks of 256
 *   steps, p[c] = chain(256 c, min(256 c + 256, K)). Their sums are added in groups of 32:
 *       g[i] = ((0 + p[32 i]) + p[32 i + 1]) + ... + p[32 i + 31]
 *   and so are the sums of groups, and of groups of groups, until there is one. Error grows with
 *   256 + 32 log32(K / 256), not with K.
 * - conv2d and its gradients: such a chain per element, in the order that conv/product.c and
 *   conv/filter.c state. Taps outside the image add nothing, except in conv2d and its image's
 *   gradient along W: they add zero times a weight if a tap has 2 to 15 terms. If there are more
 *   than 2,048 steps (or windows, in a filter's gradient), a chunk is a block of channels and taps,
 *   or of windows, of at most 256 steps; the sums of chunks are added in groups of 32, like those
 *   of a matmul.
 * - attention: attention/forward.c; scores and products of values are such chains, one block of
 *   keys after the other. attention_grad: attention/gradient.c; every gradient is a chain. If there
 *   are more than 2,048 keys (for the gradients of keys and values: queries of the heads that read
 *   them), a chunk is a block of keys, or queries; the sums of chunks are added in groups of 32.
 *   With `causal`, chains only include the keys that a query sees: all others add nothing, even if
 *   they are infinities or NaN; but a GPU multiplies them by 0 up to the end of a block. Keys that
 *   a mask forbids, or that dropout drops, are also multiplied by 0.
 * - sum of R elements, numbered row-major over the reduced dimensions.
 *   sums(first, last): 64 partial sums begin at 0; element first + r goes to partial r % 64 in
 *   ascending order; then partial[p] += partial[p + h] for h = 32, 16, 8, 4, 2, 1; the result is
 *   partial[0].
 *   Up to R = 16,384, 256 elements of each partial sum, the sum is sums(0, R).
 *   A longer axis is cut into n chunks of 2,048 elements, 32 of each partial sum; the last chunk
 *   may have fewer. Chunk c gives s[c] = sums(f, min(f + 2048, R)) with f = 2048 c. These are added
 *   in a binary tree, split at m, the largest power of two below n:
 *       tree(i, n) = n == 1 ? s[i] : tree(i, m) + tree(i + m, n - m)
 *   Error grows with log2(R). All kernels that reduce have this order: over the last dimension or
 *   others, fused or not, by one program, warp or thread or by many.
 *   reduce_max, reduce_min, reduce_prod: the same with max, min, times. argmax: the first largest;
 *   a NaN is larger than anything.
 * - bf16 and f16 are computed in f32 and rounded once per op, reductions once at the end.
 * - cumsum: one chain per line; scatter_add: updates in ascending order of their index.
 * - functions: compiler/target/llvm/math.c.
 * - max, min and relu propagate NaN. Casts of floats to integers saturate, NaN gives 0. Integer
 *   division truncates; x / 0 = 0. Integer arithmetic wraps.
 * - cross_entropy, per row: m = max, s = sum of exp(x - m), loss = log(s) - (x[label] - m).
 *   A label outside [0, C) sets the fault record; its row counts as having no label.
 *
 * With numerics "native", products of bf16 are dot products on CPUs that have them: dot.h. The
 * products of attention are dot products, too; its weights and gradients of scores are rounded to
 * bf16 first, and are 0 for an unseen key that shares a pair with a seen one. Products on other
 * CPUs, and of f16, are as above. A GPU's matrix units compute products and attention:
 * gpu/product.h, gpu/attention.h; sums and norms of rows are computed in an order that follows from
 * the row's length and the target. Reductions over many rows have 64 partial results or a power of
 * two times this number: reduce_parts.c. Sums over rows that a kernel computes in the same walk as
 * other results are first taken over the rows of each program, on every target: rows/sums.c. Cross
 * entropy has a maximum and a sum for each lane: rows/cross_entropy_lanes.c.
 *
 * In-place: an output may be the same memory as an input of a `map` group, of its segment of a
 * `batch`, or of a matmul's epilogue, if both have the same shape and element size and the group
 * contains no transpose. Other overlaps are not allowed.
 */
#ifndef TSR_COMPILER_TILE_TILE_H
#define TSR_COMPILER_TILE_TILE_H

#include "compiler/ir/mlir.h"
#include "compiler/ir/targets/features.h"
#include "compiler/ir/targets/target.h"
#include "compiler/schedule/choices.h"

/* The last step of the schedule, for one target: which weights are packed, which copies are made,
 * and the sizes of each kernel, as tsched.tile before the kernel's group. Makes a new module, which
 * the caller owns. `choices` (nullable) take precedence over models; TSR_COMPILE after a diagnostic
 * if a kernel cannot have the sizes of its choice. */
TSR_RESULT tsr_tile_plan(tsr_ctx *ctx, MlirModule schedule_module, const tsr_target *target,
                         const tsr_choices *choices, MlirModule *out_planned);

/* Makes a new module, which the caller owns, from the result of tsr_tile_plan. TSR_INTERNAL names
 * the group that has no lowering. */
TSR_RESULT tsr_tile_lower_planned(tsr_ctx *ctx, MlirModule planned, const tsr_target *target,
                                  MlirModule *out_tile_module);
/* Plans and lowers. */
TSR_RESULT tsr_tile_lower(tsr_ctx *ctx, MlirModule schedule_module, const tsr_target *target,
                          MlirModule *out_tile_module);

/* The rule of tile.segment (segments/verify.c); returns false after it emitted an error. */
bool tsr_tile_rule_segment(MlirOperation op);
bool tsr_tile_rule_dot(MlirOperation op);       /* the rule of tile.dot: dot.c */
bool tsr_tile_rule_dot_bytes(MlirOperation op); /* words.c */
/* The rule of tile.load_fragment (gpu/verify.c). */
bool tsr_tile_rule_load_fragment(MlirOperation op);
bool tsr_tile_rule_attend(MlirOperation op); /* the rule of tile.attend: gpu/verify_attend.c */
/* True if factors of f32 may be strided along K. False for wgmma, or if the target's features are
 * unknown. */
struct tsr_feature;
bool tsr_tile_rule_strided(MlirOperation op, const struct tsr_feature *has);

#endif
