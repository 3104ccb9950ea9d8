/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bundle/sample.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOBS_MAX = 8, TARGETS_MAX = 4 };
static const char config[] = "{\"formatVersion\":\"1.0\",\"name\":\"sample\"}";
static const char ir[] = "module { func.func @main() { return } }";

typedef struct sample {
    bool ready;
    tsr_bundle_blob shared[BLOBS_MAX], own[TARGETS_MAX][BLOBS_MAX];
    tsr_bundle_target targets[TARGETS_MAX];
    size_t shared_count, target_count;
} sample;
static sample samples[SAMPLE_LARGE + 1];

static void fail(const char *what) {
    fprintf(stderr, "sample: %s\n", what);
    abort();
}

void sample_fill(void *bytes, size_t size_bytes, uint64_t seed) {
    unsigned char *at = bytes;
    uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
    for (size_t i = 0; i < size_bytes; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        at[i] = (unsigned char)(x >> 32);
    }
}

static tsr_bundle_blob blob(const char *media_type, const char *title, size_t size_bytes,
                            uint64_t seed) {
    void *bytes = malloc(size_bytes);
    if (!bytes) fail("no memory");
    sample_fill(bytes, size_bytes, seed);
    return (tsr_bundle_blob){media_type, title, bytes, size_bytes, NULL};
}

/* program_size 0: uses the program of the first target, so that both share a blob. */
static void add_target(sample *s, const char *name, size_t elf_size, size_t program_size) {
    size_t t = s->target_count++;
    s->own[t][0] =
        program_size ? blob(TSR_MEDIA_PROGRAM, NULL, program_size, t + 10) : s->own[0][0];
    s->own[t][1] = blob(TSR_MEDIA_ELF, "model.so", elf_size, t + 20);
    s->targets[t] = (tsr_bundle_target){name, s->own[t], 2};
}

static const sample *get(sample_size size) {
    sample *s = &samples[size];
    if (s->ready) return s;
    s->ready = true;
    s->shared[s->shared_count++] =
        (tsr_bundle_blob){TSR_MEDIA_IR, "model.mlir", ir, sizeof ir - 1, NULL};
    if (size == SAMPLE_TINY) {
        s->shared[s->shared_count++] = blob(TSR_MEDIA_WEIGHTS, "w.safetensors", 33, 1);
        add_target(s, "cpu:x86-64-v3", 40, 17);
        return s;
    }
    size_t unit = size == SAMPLE_LARGE ? 40 : 1;
    s->shared[s->shared_count++] = blob(TSR_MEDIA_STATE, "state.safetensors", 100001 * unit, 2);
    s->shared[s->shared_count++] = blob(TSR_MEDIA_WEIGHTS, "a.safetensors", 65536, 3);
    s->shared[s->shared_count++] = blob(TSR_MEDIA_WEIGHTS, "b.safetensors", 131073 * unit, 4);
    s->shared[s->shared_count++] = blob(TSR_MEDIA_WEIGHTS, "c.safetensors", 65535, 5);
    add_target(s, "cpu:x86-64-v2", 70000, 100);
    add_target(s, "cuda:sm_90a", 512, 4096);
    add_target(s, "cpu:x86-64-v4", 70001 * unit, 0);
    return s;
}

tsr_result sample_write(tsr_ctx *ctx, const char *path, sample_size size, bool shuffled) {
    const sample *s = get(size);
    tsr_bundle_target targets[TARGETS_MAX];
    for (size_t i = 0; i < s->target_count; i++)
        targets[i] = s->targets[shuffled ? s->target_count - 1 - i : i];
    tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                            .config = config,
                            .config_size_bytes = sizeof config - 1,
                            .blobs = s->shared,
                            .blob_count = s->shared_count,
                            .targets = targets,
                            .target_count = s->target_count};
    return tsr_bundle_write(ctx, path, &spec);
}

static const tsr_bundle_target *find_target(const sample *s, const char *name) {
    for (size_t i = 0; i < s->target_count; i++)
        if (strcmp(s->targets[i].name, name) == 0) return &s->targets[i];
    fail("no such target");
    return NULL;
}

const tsr_bundle_blob *sample_layer(sample_size size, const char *target, size_t layer) {
    const sample *s = get(size);
    if (layer < s->shared_count) return &s->shared[layer];
    return &find_target(s, target)->blobs[layer - s->shared_count];
}

size_t sample_layer_count(sample_size size, const char *target) {
    const sample *s = get(size);
    return s->shared_count + find_target(s, target)->blob_count;
}

static char folder[64];

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *at) {
    (void)info, (void)type, (void)at;
    return remove(path);
}

static void remove_folder(void) { nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

char *sample_path(const char *name) {
    static char paths[4][256];
    static unsigned next;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "/tmp/tsr-bundle-%ld", (long)getpid());
    if (strcmp(folder, wanted) != 0) {
        memcpy(folder, wanted, sizeof folder);
        mkdir(folder, 0700);
        atexit(remove_folder);
    }
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

void *sample_load(const char *path, size_t *out_size_bytes) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) fail(path);
    size_t size = (size_t)ftell(file);
    void *bytes = malloc(size + 1);
    rewind(file);
    if (!bytes || fread(bytes, 1, size, file) != size) fail(path);
    fclose(file);
    *out_size_bytes = size;
    return bytes;
}

void sample_store(const char *path, const void *bytes, size_t size_bytes) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, size_bytes, file) != size_bytes || fclose(file) != 0) fail(path);
}

void sample_must(const tsr_ctx *ctx, tsr_result result) {
    if (result.code) fail(ctx->error.text);
}

size_t sample_find(const void *bytes, size_t size_bytes, const void *needle, size_t needle_size) {
    const char *at = bytes;
    for (size_t i = 0; i + needle_size <= size_bytes; i++)
        if (memcmp(at + i, needle, needle_size) == 0) return i;
    fail("needle not found");
    return 0;
}
