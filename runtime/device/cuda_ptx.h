/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the runtime itself, as PTX that a driver translates, and machine code of the one that
 * is wanted before there is time for that: what has nothing to do with a model's code. Each gives
 * the bits that the CPU's function gives.
 */
#ifndef TSR_RUNTIME_DEVICE_CUDA_PTX_H
#define TSR_RUNTIME_DEVICE_CUDA_PTX_H

#include "manifests/fatbin.h"
#include "runtime/base/buffer.h"

/* Threads of a block, of both. */
enum { TSR_CUDA_PTX_THREADS = 64 };

/* tsr_leaves(bytes, digests, count), all 64 bits: thread i writes the SHA-256 of leaf i, of
 * TSR_HASH_LEAF_BYTES each, to its 32 bytes of `digests`; both are aligned to 16 bytes. */
#define TSR_CUDA_PTX_LEAVES "tsr_leaves"
/* tsr_normals(out, first, count, a, b, seed, stream), of 64 bits up to b (a, b: f64), then 32:
 * thread i writes a + b * normal, rounded to f32; the normals are those of tsr_philox_normals. */
#define TSR_CUDA_PTX_NORMALS "tsr_normals"
/* Of cuda_limits.c: how fast it computes is all there is to it. */
#define TSR_CUDA_PTX_RATE "tsr_rate"

/* Text of a module of each of the first two, with its NUL. */
void tsr_cuda_ptx_leaves(tsr_buffer *out);
void tsr_cuda_ptx_normals(tsr_buffer *out);

/* The first one's machine code, of a build that had an assembler (cuda_assemble.c); else none. */
extern const tsr_fatbin_image tsr_cuda_leaves_codes[];
extern const uint32_t tsr_cuda_leaves_code_count;

#endif
