/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzzes the parsers of foreign bytes, with libFuzzer under ASan and UBSan. The contents of bundles
 * have fuzzers of their own: tests/fuzz.
 *
 *     fuzz -parser=NAME -seeds=FOLDER     writes valid seed inputs
 *     fuzz -parser=NAME [libFuzzer's options] FOLDER
 *
 * A parser returns a result for any bytes; an accepted input must be the same after it was written
 * and read again.
 */
#include "runtime/base/array.h"
#include "runtime/data/array_file.h"
#include "runtime/record/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, ELEMENTS_MAX = 1 << 16 };

typedef struct parser {
    const char *name;
    void (*write_seeds)(const char *folder);
    void (*run)(const uint8_t *bytes, size_t size_bytes);
    const char *extension; /* extension of the file that contains the input; NULL: no file */
} parser;

static char input_path[PATH_BYTES]; /* path of the input for parsers that read files */
static char array_spec[PATH_BYTES + 2];

static void require(bool ok, const char *what) {
    if (ok) return;
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

static void store(const char *path, const void *bytes, size_t size_bytes) {
    FILE *file = fopen(path, "wb");
    require(file && fwrite(bytes, 1, size_bytes, file) == size_bytes && fclose(file) == 0,
            "cannot write an input");
}

static const char *seed_path(const char *folder, size_t index, const char *extension) {
    static char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/seed%zu%s", folder, index, extension);
    return path;
}

/* ---- arrays ---- */

static void array_run(const uint8_t *bytes, size_t size_bytes) {
    static double elements[ELEMENTS_MAX];
    tsr_ctx ctx = {0};
    tsr_array *array = NULL;
    store(input_path, bytes, size_bytes);
    if (tsr_array_open(&ctx, array_spec, TSR_DTYPE_F32, &array).code) return;
    uint64_t count = 1;
    const tsr_shape *shape = tsr_array_get_shape(array);
    for (uint32_t i = 0; i < shape->rank; i++) count *= (uint64_t)shape->dims[i];
    if (count > ELEMENTS_MAX) count = ELEMENTS_MAX;
    if (tsr_array_read(&ctx, array, 0, count, elements).code) tsr_error_clear(&ctx);
    tsr_array_close(&ctx, array);
}

static const int64_t sample_labels[6] = {3, 1, 4, 1, 5, 9};
static const float sample_weights[6] = {0.5f, -1, 2, 0, 1e-3f, 7};
static const tsr_tensor sample_tensors[] = {
    {.name = "labels",
     .dtype = TSR_DTYPE_I64,
     .shape = {.rank = 1, .dims = {6}},
     .data = (void *)sample_labels},
    {.name = "weights",
     .dtype = TSR_DTYPE_F32,
     .shape = {.rank = 2, .dims = {2, 3}},
     .data = (void *)sample_weights},
};

static void npy_seeds(const char *folder) {
    tsr_ctx ctx = {0};
    for (size_t i = 0; i < 2; i++)
        require(!tsr_npy_write(&ctx, seed_path(folder, i, ".npy"), &sample_tensors[i]).code,
                ctx.error.text);
}

/* The seeds are files in tests/parsers/seeds/npz: a stored and a deflated member, as NumPy writes
 * them. */
static void npz_seeds(const char *folder) { (void)folder; }

/* ---- recordings of runs ---- */

static void record_seed(const char *folder, size_t number, bool has_values, bool has_program) {
    static const tsr_hyperparameter list[] = {{"eps", "1e-08", false}, {"lr", "0.001", false}};
    tsr_ctx ctx = {0};
    tsr_record_header header = {.numerics = "portable+fma",
                                .entry = "train",
                                .seed = 7,
                                .has_values = has_values,
                                .values_of = 2};
    tsr_recorder *recorder = NULL;
    if (has_program) {
        header.identity = (tsr_identity){tsr_hash("program", 7), 2, list};
        header.virtual_ranks = 4;
        header.rows = has_values ? 77 : 0;
    }
    require(!tsr_recorder_create(&ctx, seed_path(folder, number, ".log"), &header, sample_tensors,
                                 2, &recorder)
                 .code,
            ctx.error.text);
    for (uint64_t step = 1; step < 4; step++)
        require(!tsr_recorder_append(&ctx, recorder, step).code, ctx.error.text);
    require(!tsr_recorder_close(&ctx, recorder).code, ctx.error.text);
}

static void record_seeds(const char *folder) {
    for (size_t i = 0; i < 4; i++) record_seed(folder, i, i & 1, i & 2);
}

static void record_run(const uint8_t *bytes, size_t size_bytes) {
    tsr_ctx ctx = {0};
    tsr_replay *replay = NULL;
    store(input_path, bytes, size_bytes);
    if (tsr_replay_open(&ctx, input_path, &replay).code) return;
    require(tsr_replay_get_header(replay)->entry != NULL, "a record without an entry was accepted");
    tsr_replay_close(replay);
}

static const parser parsers[] = {
    {"npy", npy_seeds, array_run, ".npy"},
    {"npz", npz_seeds, array_run, ".npz"},
    {"record", record_seeds, record_run, ".log"},
};
static const parser *chosen;

static void remove_input(void) { unlink(input_path); }

/* libFuzzer's hooks. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    const char *seeds = NULL;
    for (int i = 1; i < *argc; i++) {
        const char *argument = (*argv)[i];
        if (strncmp(argument, "-seeds=", 7) == 0) seeds = argument + 7;
        if (strncmp(argument, "-parser=", 8) != 0) continue;
        for (size_t p = 0; p < TSR_COUNT(parsers); p++)
            if (strcmp(argument + 8, parsers[p].name) == 0) chosen = &parsers[p];
    }
    require(chosen != NULL, "-parser= names none of the parsers");
    if (seeds) {
        chosen->write_seeds(seeds);
        exit(0);
    }
    if (chosen->extension) {
        const char *folder = getenv("TMPDIR");
        snprintf(input_path, sizeof input_path, "%s/tessera-fuzz-%ld%s", folder ? folder : "/tmp",
                 (long)getpid(), chosen->extension);
        /* The .npz seeds have a member "a". */
        snprintf(array_spec, sizeof array_spec, "%s%s", input_path,
                 strcmp(chosen->extension, ".npz") == 0 ? ":a" : "");
        atexit(remove_input);
    }
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    chosen->run(bytes, size_bytes);
    return 0;
}
