/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports a generation as a file for other programs.
 */
#include "runtime/base/array.h"
#include "runtime/data/array_file.h"
#include "runtime/store.h"

#include <inttypes.h>
#include <stdio.h>

enum { NUMBER_TEXT_MAX = 24 };

static tsr_result write_tensors(tsr_ctx *ctx, const char *path, const tsr_generation *generation,
                                const tsr_tensor *tensors, size_t tensor_count) {
    const tsr_position *position = &generation->position;
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"generation", generation->number},
        {"epoch", generation->epoch},
        {"step", position->step},
        {"seed", position->seed},
        {"sample", position->sample},
        {"virtual_ranks", position->virtual_ranks},
        {"shuffle_version", position->shuffle_version},
        {"epoch_base", position->epoch_base},
        {"epoch_base_sample", position->epoch_base_sample},
        {"rows", position->rows},
    };
    const struct {
        const char *key;
        const tsr_digest *value;
    } hashes[] = {
        {"bundle_hash", &generation->bundle_hash},     {"data_digest", &position->data},
        {"program_digest", &generation->program},      {"state_hash", &generation->state_hash},
        {"manifest_hash", &generation->manifest_hash},
    };
    enum { NUMBERS = TSR_COUNT(numbers), HASHES = TSR_COUNT(hashes) };
    char number_texts[NUMBERS][NUMBER_TEXT_MAX], hash_texts[HASHES][TSR_DIGEST_HEX + 1];
    const char *metadata[2 * (NUMBERS + HASHES) + 1], **at = metadata;
    for (size_t i = 0; i < NUMBERS; i++) {
        snprintf(number_texts[i], sizeof number_texts[i], "%" PRIu64, numbers[i].value);
        *at++ = numbers[i].key;
        *at++ = number_texts[i];
    }
    for (size_t i = 0; i < HASHES; i++) {
        tsr_digest_format(hashes[i].value, hash_texts[i]);
        *at++ = hashes[i].key;
        *at++ = hash_texts[i];
    }
    *at = NULL;
    return tsr_safetensors_write(ctx, path, tensors, tensor_count, metadata);
}

tsr_result tsr_store_export(tsr_ctx *ctx, const char *directory, tsr_resume_mode mode,
                            uint64_t generation, const char *path, tsr_recovery *out_recovery) {
    tsr_arena arena = {0};
    tsr_tensor *tensors = NULL;
    tsr_recovery recovery;
    size_t count = 0;
    tsr_result result;
    TRY_GOTO(ctx, result,
             tsr_store_read(ctx, directory, NULL, mode, generation, &arena, &recovery, &tensors,
                            &count));
    if (!recovery.found)
        FAIL_GOTO(
            ctx, result, TSR_STATE,
            "state directory '%s': no generation was committed yet, so there is nothing to export",
            directory);
    TRY_GOTO(ctx, result, write_tensors(ctx, path, &recovery.generation, tensors, count));
    *out_recovery = recovery;
done:
    tsr_arena_finish(&arena);
    return result;
}
