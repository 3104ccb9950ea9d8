/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the safetensors reader: the tensors of an accepted input are consecutive and cover the
 * data; written and read again, they are the same.
 */
#include "runtime/base/io/json.h"
#include "runtime/data/array_file.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, JSON_MAX = 1 << 15, DATA_MAX = 1 << 12 };

static void seed(const char *folder) {
    static const int64_t labels[6] = {3, 1, 4, 1, 5, 9};
    static const float weights[6] = {0.5f, -1, 2, 0, 1e-3f, 7};
    static const char *const metadata[] = {"producer", "tessera", "a", "", NULL};
    const tsr_tensor tensors[] = {
        {.name = "labels",
         .dtype = TSR_DTYPE_I64,
         .shape = {.rank = 1, .dims = {6}},
         .data = (void *)labels},
        {.name = "w",
         .dtype = TSR_DTYPE_F32,
         .shape = {.rank = 2, .dims = {2, 3}},
         .data = (void *)weights},
        {.name = "scalar", .dtype = TSR_DTYPE_F32, .data = (void *)weights},
    };
    for (unsigned i = 0; i < 4; i++) {
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        void *bytes = NULL;
        size_t size = 0;
        tsr_result result = tsr_safetensors_encode(&ctx, tensors, i, i == 3 ? 64 : 8,
                                                   i == 2 ? metadata : NULL, &arena, &bytes, &size);
        fuzz_require(!result.code, "a valid file to begin with");
        fuzz_put(folder, i, bytes, size);
        tsr_arena_finish(&arena);
    }
}

static void check(const uint8_t *bytes, uint64_t size_bytes, const tsr_safetensors *index) {
    uint64_t sum = 0;
    (void)bytes;
    for (size_t i = 0; i < index->entry_count; i++) {
        const tsr_safetensors_entry *entry = &index->entries[i];
        uint64_t size = entry->size_bytes;
        bool sized = !entry->unknown_dtype && entry->dim_count <= TSR_RANK_MAX;
        fuzz_require(entry->unknown_dtype ? !entry->dtype : entry->dtype, "a dtype, or its name");
        fuzz_require(!sized || (tsr_shape_size(&entry->shape, entry->dtype, &size) &&
                                size == entry->size_bytes),
                     "a size that is shape times dtype");
        fuzz_require(entry->offset_bytes >= index->data_offset_bytes &&
                         entry->offset_bytes <= size_bytes &&
                         entry->size_bytes <= size_bytes - entry->offset_bytes,
                     "a tensor inside of its file");
        fuzz_require(i == 0 || strcmp(index->entries[i - 1].name, entry->name) < 0,
                     "names in order, each once");
        sum += size;
    }
    fuzz_require(sum == size_bytes - index->data_offset_bytes, "tensors that cover the data");
}

static uint64_t header_length(const uint8_t *bytes) {
    uint64_t length = 0;
    for (int i = LENGTH_BYTES; i-- > 0;) length = length << 8 | bytes[i];
    return length;
}

static bool header_good(const uint8_t *bytes, size_t size_bytes, const tsr_ctx *ctx) {
    if (size_bytes < LENGTH_BYTES || header_length(bytes) > size_bytes - LENGTH_BYTES) return false;
    /* Only the JSON scan of the reader names the offset of its error. */
    return !strstr(ctx->error.text, ": offset ") && !strstr(ctx->error.text, "begin with");
}

static bool run(const uint8_t *bytes, size_t size_bytes) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_safetensors index;
    tsr_result result = tsr_safetensors_decode(&ctx, bytes, size_bytes, size_bytes, "fuzz",
                                               TSR_DATA, &arena, &index);
    fuzz_require(!result.code || result.code == TSR_DATA || fuzz_faults, "the code given");
    if (!result.code) check(bytes, size_bytes, &index);
    bool good = !result.code || header_good(bytes, size_bytes, &ctx);
    /* Half of the file is available, as if only the header had been fetched. */
    result = tsr_safetensors_decode(&ctx, bytes, size_bytes / 2, size_bytes, "fuzz", TSR_DATA,
                                    &arena, &index);
    if (!result.code) check(bytes, size_bytes, &index);
    tsr_arena_finish(&arena);
    return good;
}

/* Writes the length of the header, and sometimes as many bytes of data as its tensors need. */
static size_t seal(uint8_t *bytes, size_t json_size, size_t size_max, uint32_t *state) {
    size_t size = LENGTH_BYTES + json_size, most = 0;
    for (size_t i = 0; i < LENGTH_BYTES; i++) bytes[i] = (uint8_t)(json_size >> 8 * i);
    for (size_t i = LENGTH_BYTES; i < size; i++) { /* "data_offsets":[a,b] */
        if (bytes[i] != ']' || bytes[i - 1] < '0' || bytes[i - 1] > '9') continue;
        size_t begin = i, value = 0;
        while (begin > LENGTH_BYTES && bytes[begin - 1] >= '0' && bytes[begin - 1] <= '9') begin--;
        if (begin == LENGTH_BYTES || bytes[begin - 1] != ',') continue;
        for (size_t k = begin; k < i && value < DATA_MAX; k++)
            value = value * 10 + (bytes[k] - '0');
        if (value > most && value < DATA_MAX) most = value;
    }
    size_t data = fuzz_one_in(state, 8) ? fuzz_random(state) % 64 : most;
    if (data > size_max - size) data = size_max - size;
    memset(bytes + size, 0x5a, data);
    return size + data;
}

static size_t mutate(uint8_t *bytes, size_t size_bytes, size_t size_max, uint32_t seed) {
    uint32_t state = seed;
    if (size_bytes < LENGTH_BYTES || size_max < 256 || fuzz_one_in(&state, 16))
        return LLVMFuzzerMutate(bytes, size_bytes, size_max);
    uint64_t length = header_length(bytes);
    if (length > size_bytes - LENGTH_BYTES) length = size_bytes - LENGTH_BYTES;
    size_t json_size =
        fuzz_mutate_json(bytes + LENGTH_BYTES, (size_t)length, size_max - LENGTH_BYTES, &state);
    if (bytes[LENGTH_BYTES] != '{' && json_size + 6 <= size_max - LENGTH_BYTES) {
        memmove(bytes + LENGTH_BYTES + 5, bytes + LENGTH_BYTES, json_size);
        memcpy(bytes + LENGTH_BYTES, "{\"a\":", 5);
        bytes[LENGTH_BYTES + 5 + json_size] = '}';
        json_size += 6;
    }
    return seal(bytes, json_size, size_max, &state);
}

const fuzz_target fuzz_the_target = {"safetensors", seed, run, mutate};
