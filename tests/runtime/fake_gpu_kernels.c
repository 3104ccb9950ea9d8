/* SPDX-License-Identifier: Apache-2.0
 *
 * The runtime's own kernels in the fake driver: by the functions of the CPU.
 */
#include "runtime/base/hash/hash.h"
#include "runtime/base/random/philox.h"
#include "tests/runtime/fake_gpu_internal.h"

static void *pointer(tsr_gpu_address address) { return (void *)(uintptr_t)address; }

tsr_gpu_result fake_hash_leaves(void **parameters, unsigned threads) {
    const char *bytes = pointer(*(tsr_gpu_address *)parameters[0]);
    tsr_digest *digests = pointer(*(tsr_gpu_address *)parameters[1]);
    uint64_t count = *(uint64_t *)parameters[2];
    if (!count || count > threads) return INVALID_VALUE;
    for (uint64_t i = 0; i < count; i++)
        digests[i] = tsr_hash(bytes + i * TSR_HASH_LEAF_BYTES, TSR_HASH_LEAF_BYTES);
    return 0;
}

tsr_gpu_result fake_draw_normals(void **parameters, unsigned threads) {
    float *to = pointer(*(tsr_gpu_address *)parameters[0]);
    uint64_t first = *(uint64_t *)parameters[1], count = *(uint64_t *)parameters[2];
    double a = *(double *)parameters[3], b = *(double *)parameters[4], normal;
    const uint32_t key[2] = {*(uint32_t *)parameters[5], *(uint32_t *)parameters[6]};
    if (!count || count > threads) return INVALID_VALUE;
    for (uint64_t i = 0; i < count; i++) {
        tsr_philox_normals(key, first + i, 1, &normal);
        to[i] = (float)(a + b * normal);
    }
    return 0;
}
