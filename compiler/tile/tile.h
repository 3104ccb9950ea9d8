/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedule IR -> Tile IR: one tile.func in the place of each tsched.func, of the same name. Its
 * arguments are the group's inputs, then its outputs, as memrefs (ui8 and i1 are stored as i8); its
 * `grid` is the number of independent programs. Entries stay as they are, but that on a CPU
 * products take what follows them, if they hide it (tsr_pass_fuse_epilogues), matrices of bf16 and
 * f16 are widened by the products (tsr_pass_narrow) and weights are packed (tsr_schedule_pack), and
 * that a GPU runs elementwise groups of one expression as one (tsr_schedule_batch), and, with
 * native numerics, factors of products lie with a pitch where that is worth it: arguments are
 * memrefs with that layout (gpu/pitch.h). The module's attribute TSR_TARGET_NAME names the target.
 *
 * Numerics, the same for every target with FMA, grid split and tile shape; this is version 2 of
 * them (TSR_NUMERICS_VERSION of manifests/config.h):
 * - matmul: chain(first, last) is acc = fma(a[k], b[k], acc) for k = first ... last - 1, from
 *   acc = 0. An element of up to 2,048 steps is chain(0, K). A longer one is cut into chunks of 256
 *   steps, p[c] = chain(256 c, min(256 c + 256, K)). Their sums are added in groups of 32:
 *       g[i] = ((0 + p[32 i]) + p[32 i + 1]) + ... + p[32 i + 31]
 *   and so are the sums of groups, and those of groups of groups, until there is one. Error grows
 *   with 256 + 32 log32(K / 256), not with K.
 * - conv2d and its gradients: such a chain per element, in the order that conv/product.c and
 * conv/filter.c state; taps outside of the image add nothing, but in conv2d and its image's
 * gradient along W zero times a weight where a tap has 2 to 15 terms. Of more than 2,048 steps (or
 * windows, of a filter's gradient) a chunk is a block of channels and taps, or of windows, of at
 * most 256 steps; their sums are added in groups of 32, as those of a matmul are.
 * - attention: attention/forward.c; scores and products of values are such chains, one block of
 * keys after the other. attention_grad: attention/gradient.c; every gradient is a chain. Of more
 * than 2,048 keys (for the gradients of keys and values: queries of the heads that read them) a
 * chunk is a block of keys, or queries; their sums are added in groups of 32. With
 * `causal` chains are of what a query sees alone: what it does not adds nothing, be it an infinity
 * or a NaN; but on a GPU it is multiplied by 0 up to the end of a block. So is what a mask forbids
 * or dropout drops.
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
 * - bf16 and f16 are computed with in f32 and rounded once per op, reductions once at the end.
 * - cumsum: one chain per line; scatter_add: updates in ascending order of their place.
 * - functions: compiler/target/llvm_math.c.
 * - max, min and relu propagate NaN. Casts of floats to integers saturate, NaN gives 0. Integer
 *   division truncates; x / 0 = 0. Integer arithmetic wraps.
 * - cross_entropy, per row: m = max, s = sum of exp(x - m), loss = log(s) - (x[label] - m).
 *   A label outside [0, C) sets the fault record; its row counts as having no label.
 *
 * With numerics "native" products of bf16 are dot products on CPUs that have them: dot.h; so are
 * those of attention, whose weights and gradients of scores are rounded to bf16 before, and 0 where
 * what is not seen is multiplied beside what is; those of other CPUs, and of f16, are as above. A
 * GPU's matrix units compute products and attention: gpu/product.h, gpu/attention.h; sums and norms
 * of rows are taken in an order that follows from the row's length and the target. Reductions over
 * many rows have 64 partial results or a power of two times as many: reduce_parts.c; on every
 * target sums of rows that a kernel goes over for their sums, too, are taken of its programs' rows
 * first: rows/sums.c. Cross entropy has a maximum and a sum for each lane:
 * rows/cross_entropy_lanes.c.
 *
 * In-place: an output may be the same memory as an input of a `map` group, of its segment of a
 * `batch`, or of a matmul's epilogue, if both have the same shape and element size and the group
 * holds no transpose. Other overlaps are not allowed.
 */
#ifndef TSR_COMPILER_TILE_TILE_H
#define TSR_COMPILER_TILE_TILE_H

#include "compiler/target/target.h"

#define TSR_TARGET_NAME "tessera.target"

/* A new module owned by the caller. TSR_INTERNAL names the group that has no lowering. */
TSR_RESULT tsr_tile_lower(tsr_ctx *ctx, MlirModule schedule_module, const tsr_target *target,
                          MlirModule *out_tile_module);

/* The rule of tile.segment (segments/verify.c); false after an error was emitted. */
bool tsr_tile_rule_segment(MlirOperation op);
bool tsr_tile_rule_dot(MlirOperation op); /* of tile.dot: dot.c */
/* That of tile.load_fragment (gpu/verify.c). */
bool tsr_tile_rule_load_fragment(MlirOperation op);
bool tsr_tile_rule_attend(MlirOperation op); /* of tile.attend: gpu/verify_attend.c */
/* May factors of f32 be strided along K? Not for wgmma, nor where what the target has is not known.
 */
struct tsr_feature;
bool tsr_tile_rule_strided(MlirOperation op, const struct tsr_feature *has);

#endif
