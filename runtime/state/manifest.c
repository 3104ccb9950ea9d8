/* SPDX-License-Identifier: Apache-2.0
 *
 * What a manifest says, summed up.
 */
#include "runtime/state/best.h"

tsr_part tsr_part_of(uint32_t chunk_count, uint32_t rank, uint32_t rank_count) {
    TSR_ASSERT(rank < rank_count);
    uint32_t first = (uint32_t)((uint64_t)chunk_count * rank / rank_count);
    uint32_t end = (uint32_t)((uint64_t)chunk_count * (rank + 1u) / rank_count);
    return (tsr_part){first, end - first};
}

uint64_t tsr_manifest_data_bytes(const tsr_manifest *manifest) {
    uint64_t size = 0;
    for (uint32_t i = 0; i < manifest->segment_count; i++) size += manifest->segment_sizes[i];
    return size;
}

tsr_generation tsr_manifest_generation(const tsr_manifest *manifest) {
    tsr_position position = manifest->token.position;
    position.best = tsr_best_of(manifest);
    return (tsr_generation){.number = manifest->token.generation,
                            .epoch = manifest->token.epoch,
                            .position = position,
                            .bundle_hash = manifest->token.bundle_hash,
                            .program = manifest->token.identity.program,
                            .state_hash = manifest->token.state_hash,
                            .manifest_hash = manifest->hash};
}
