/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime's own kernels, which are independent of a model's code: as PTX for the driver's
 * compiler, and the leaf hash kernel also as machine code, because it is needed before there is
 * time to compile. Each kernel computes the same bits as the CPU's function.
 */
#ifndef TSR_RUNTIME_DEVICE_CUDA_PTX_H
#define TSR_RUNTIME_DEVICE_CUDA_PTX_H

#include "manifests/fatbin.h"
#include "runtime/base/buffer.h"
#include "runtime/transport/tree.h"

/* Threads of a block, for both kernels. */
enum { TSR_CUDA_PTX_THREADS = 64 };

/* tsr_leaves(bytes, digests, count), all parameters 64 bits: thread i writes the SHA-256 of leaf i,
 * of TSR_HASH_LEAF_BYTES each, to its 32 bytes of `digests`; both are aligned to 16 bytes. */
#define TSR_CUDA_PTX_LEAVES "tsr_leaves"
/* tsr_normals(out, first, count, a, b, seed, stream), 64-bit parameters up to b (a, b: f64), then
 * 32-bit: thread i writes a + b * normal, rounded to f32; the normal samples equal those of
 * tsr_philox_normals. */
#define TSR_CUDA_PTX_NORMALS "tsr_normals"
/* Only to measure its speed. */
#define TSR_CUDA_PTX_RATE "tsr_rate"

/* Kernels (out, a, b, count), all parameters 64 bits: thread i computes out[i] from a[i] and b[i]
 * as tsr_tree_combine does; `out` may be a or b. */
const char *tsr_cuda_ptx_combine_name(tsr_reduction reduction);
/* Appends the text of a module with the kernels of all reductions, with its NUL. */
void tsr_cuda_ptx_combine(tsr_buffer *out);

/* Append the text of a module with each of the first two kernels, with its NUL. */
void tsr_cuda_ptx_leaves(tsr_buffer *out);
void tsr_cuda_ptx_normals(tsr_buffer *out);

/* Machine code of the first kernel, in a build that had an assembler (cuda_assemble.c); otherwise
 * empty. */
extern const tsr_fatbin_image tsr_cuda_leaves_codes[];
extern const uint32_t tsr_cuda_leaves_code_count;

#endif
