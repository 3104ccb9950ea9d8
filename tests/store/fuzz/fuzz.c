/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the decoders of the state store, with libFuzzer under ASan and UBSan.
 *
 *     fuzz -target=NAME -seeds=FOLDER     writes valid seed inputs
 *     fuzz -target=NAME [libFuzzer's options] FOLDER...
 *
 * Nearly every mutated input is repaired so that it passes the checks of magic, size and hash,
 * which come before all other checks. The program prints the share of such inputs at the end.
 */
#include "tests/store/fuzz/fuzz.h"

#include "runtime/base/array.h"
#include "runtime/base/hash/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const fuzz_target *const targets[] = {&fuzz_manifest, &fuzz_token, &fuzz_base,
                                             &fuzz_message};
static const fuzz_target *chosen;
static uint64_t run_count, pass_count;

void fuzz_require(bool holds, const char *promise) {
    if (holds) return;
    fprintf(stderr, "fuzz: not kept: %s\n", promise);
    abort();
}

void fuzz_put(const char *folder, unsigned number, const void *bytes, size_t size_bytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/seed%u", folder, number);
    FILE *file = fopen(path, "wb");
    fuzz_require(file && fwrite(bytes, 1, size_bytes, file) == size_bytes && fclose(file) == 0,
                 "an input can be written");
}

uint32_t fuzz_random(uint32_t *state) { /* xorshift (Marsaglia 2003) */
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

uint64_t fuzz_take(const uint8_t *at, unsigned width) {
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}
void fuzz_give(uint8_t *at, uint64_t value, unsigned width) {
    for (unsigned i = 0; i < width; i++) at[i] = (uint8_t)(value >> (8 * i));
}

void fuzz_seal(uint8_t *bytes, size_t size_bytes) {
    if (size_bytes < TSR_DIGEST_BYTES) return;
    tsr_digest own = tsr_hash(bytes, size_bytes - TSR_DIGEST_BYTES);
    memcpy(bytes + size_bytes - TSR_DIGEST_BYTES, own.bytes, sizeof own.bytes);
}
bool fuzz_is_sealed(const uint8_t *bytes, size_t size_bytes) {
    if (size_bytes < TSR_DIGEST_BYTES) return false;
    tsr_digest own = tsr_hash(bytes, size_bytes - TSR_DIGEST_BYTES);
    return memcmp(bytes + size_bytes - TSR_DIGEST_BYTES, own.bytes, sizeof own.bytes) == 0;
}

uint64_t fuzz_number(uint32_t *random) {
    static const uint64_t odd[] = {0,         1,          2,          7,         8,
                                   9,         255,        256,        4095,      4096,
                                   65535,     65536,      1 << 20,    1 << 22,   (1 << 22) + 1,
                                   INT32_MAX, UINT32_MAX, UINT64_MAX, INT64_MAX, UINT64_C(4) << 30};
    uint32_t pick = fuzz_random(random) % 32;
    if (pick < TSR_COUNT(odd)) return odd[pick];
    return fuzz_random(random) % (pick & 1 ? 16 : 1 << 24);
}

/* ---- libFuzzer's hooks ---- */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size_bytes, size_t size_max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size_bytes, size_t size_max);

static void tell(void) {
    if (run_count)
        fprintf(stderr, "fuzz: %s: %" PRIu64 " executions, %.1f %% passed the header check\n",
                chosen->name, run_count, 100.0 * (double)pass_count / (double)run_count);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *seeds = NULL;
    for (int i = 1; i < *argc; i++) {
        const char *argument = (*argv)[i];
        if (strncmp(argument, "-seeds=", 7) == 0) seeds = argument + 7;
        if (strncmp(argument, "-target=", 8) != 0) continue;
        for (size_t t = 0; t < TSR_COUNT(targets); t++)
            if (strcmp(argument + 8, targets[t]->name) == 0) chosen = targets[t];
    }
    fuzz_require(chosen != NULL, "-target= names a target");
    if (seeds) {
        chosen->seed(seeds);
        exit(0);
    }
    atexit(tell);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    run_count++;
    pass_count += chosen->passes(bytes, size_bytes);
    chosen->run(bytes, size_bytes);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size_bytes, size_t size_max, unsigned seed) {
    uint32_t random = seed ? seed : 1;
    for (int i = 0; i < 4; i++) (void)fuzz_random(&random);
    size_t size = fuzz_random(&random) % 3 && size_bytes
                      ? chosen->change(bytes, size_bytes, size_max, &random)
                      : LLVMFuzzerMutate(bytes, size_bytes, size_max);
    return fuzz_random(&random) % 16 ? chosen->mend(bytes, size, size_max) : size;
}
