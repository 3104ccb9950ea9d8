/* SPDX-License-Identifier: Apache-2.0
 *
 * stablehlo --seeds FOLDER [--runs N] [--seed S] [--first I] [--parsed P]
 * stablehlo --seeds FOLDER --seed S --show I    prints input I
 *
 * Imports changed modules of StableHLO: input I of seed S is always the same mutant of a module of
 * the folder. A module is imported to Graph IR that verifies, or refused with an error that has a
 * text. Fails if a child dies or takes too long, and if less than P % of the inputs parse.
 */
#include "compiler/frontend/stablehlo/import.h"
#include "compiler/shim/shim.h"
#include "runtime/base/array.h"
#include "tests/compiler/corpus.h"
#include "tests/compiler/fuzz/mutate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BATCH = 100, BATCH_SECONDS = 60 /* of CPU; a batch takes about one */ };

/* Shared with the child. */
typedef struct board {
    volatile uint64_t input; /* the current one */
    uint64_t imported, refused, unparsed;
    bool wrong; /* an input broke a rule of this test */
} board;

typedef struct fuzzer {
    seeds texts;
    uint64_t runs, first, seed, percent;
    board *shared;
    int file; /* a memory file: the current input */
    char path[64];
} fuzzer;

static void add_seed(const char *path, const char *text, size_t size_bytes, void *user) {
    (void)path;
    seeds_add(user, text, size_bytes);
}

static void make_input(const fuzzer *f, uint64_t index, tsr_buffer *out) {
    uint64_t state = f->seed * 0x9e3779b97f4a7c15u + index;
    mutate(&f->texts, &state, out);
}

static void write_input(const fuzzer *f, const tsr_buffer *input) {
    int truncated = ftruncate(f->file, 0);
    ssize_t wrote = pwrite(f->file, input->bytes, input->size_bytes, 0);
    TSR_ASSERT(truncated == 0 && wrote == (ssize_t)input->size_bytes);
}

static bool parses(const tsr_buffer *input) {
    tsr_ctx ctx = {0};
    tsr_diag_list diags = {0};
    MlirContext mlir = {NULL};
    MlirModule module = {NULL};
    tsr_result made = tsr_mlir_context_create(&ctx, &diags, &mlir);
    TSR_ASSERT(!made.code);
    tsr_shim_load_stablehlo(mlir);
    tsr_result result =
        tsr_mlir_parse(&ctx, mlir, &diags, input->bytes, input->size_bytes, "input.mlir", &module);
    if (!result.code) mlirModuleDestroy(module);
    tsr_mlir_context_destroy(mlir);
    tsr_diag_finish(&diags);
    return !result.code;
}

/* What the import of an input must fulfil. */
static bool import(const fuzzer *f, bool *out_imported) {
    tsr_ctx ctx = {0};
    tsr_diag_list diags = {0};
    MlirContext mlir = {NULL};
    MlirModule module = {NULL};
    tsr_digest digest;
    const tsr_hlo_options options = {.path = f->path};
    tsr_result made = tsr_mlir_context_create(&ctx, &diags, &mlir);
    TSR_ASSERT(!made.code);
    tsr_result result = tsr_hlo_import(&ctx, mlir, &diags, &options, &module, &digest);
    bool good = result.code == TSR_COMPILE ? diags.error_count && ctx.error.text[0] : !result.code;
    *out_imported = !result.code;
    if (!result.code) {
        tsr_result verified = tsr_mlir_verify(&ctx, module, &diags, "import");
        good = !verified.code;
        mlirModuleDestroy(module);
    }
    if (!good)
        fprintf(stderr, "stablehlo: code %d, %zu errors: %s\n", (int)result.code, diags.error_count,
                ctx.error.text);
    tsr_mlir_context_destroy(mlir);
    tsr_diag_finish(&diags);
    return good;
}

static void run_one(const fuzzer *f, uint64_t index) {
    tsr_buffer input = {0};
    bool imported = false;
    f->shared->input = index;
    make_input(f, index, &input);
    write_input(f, &input);
    f->shared->wrong |= !import(f, &imported);
    if (imported)
        f->shared->imported++;
    else if (parses(&input))
        f->shared->refused++;
    else
        f->shared->unparsed++;
    tsr_buffer_finish(&input);
}

static _Noreturn void run_child(const fuzzer *f, uint64_t first, uint64_t end) {
    const struct rlimit limit = {BATCH_SECONDS, BATCH_SECONDS};
    setrlimit(RLIMIT_CPU, &limit);
    for (uint64_t i = first; i < end && !f->shared->wrong; i++) run_one(f, i);
    _exit(f->shared->wrong);
}

/* False after a message if an input of [first, end) failed. */
static bool run_batch(const fuzzer *f, uint64_t first, uint64_t end) {
    int status = 0;
    pid_t pid = fork();
    TSR_ASSERT(pid >= 0);
    if (pid == 0) run_child(f, first, end);
    pid_t ended = waitpid(pid, &status, 0);
    TSR_ASSERT(ended == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    fprintf(stderr,
            "stablehlo: input %" PRIu64 " of seed %" PRIu64 " ended with %s %d; --seed %" PRIu64
            " --show %" PRIu64 " prints it\n",
            f->shared->input, f->seed, WIFSIGNALED(status) ? "signal" : "code",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), f->seed,
            f->shared->input);
    return false;
}

static int run_all(const fuzzer *f) {
    const board *b = f->shared;
    for (uint64_t i = 0; i < f->runs; i += BATCH) {
        uint64_t end = i + BATCH < f->runs ? i + BATCH : f->runs;
        if (!run_batch(f, f->first + i, f->first + end)) return 1;
    }
    uint64_t parsed = b->imported + b->refused;
    printf("stablehlo: seed %" PRIu64 ", %" PRIu64 " imported, %" PRIu64 " refused, %" PRIu64
           " that do not parse\n",
           f->seed, b->imported, b->refused, b->unparsed);
    if (parsed * 100 >= f->percent * f->runs && b->imported && b->refused) return 0;
    printf("expected %" PRIu64 " %% that parse, some imported and some refused\n", f->percent);
    return 1;
}

static int show(const fuzzer *f, uint64_t index) {
    tsr_buffer input = {0};
    make_input(f, index, &input);
    fwrite(input.bytes, 1, input.size_bytes, stdout);
    tsr_buffer_finish(&input);
    return 0;
}

int main(int argc, char **argv) {
    fuzzer f = {.runs = 1000, .seed = 1};
    const char *folder = NULL;
    uint64_t shown = 0;
    const struct {
        const char *name;
        uint64_t *value;
    } options[] = {{"--runs", &f.runs},
                   {"--seed", &f.seed},
                   {"--first", &f.first},
                   {"--parsed", &f.percent},
                   {"--show", &shown}};
    bool shows = false;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seeds") == 0) folder = argv[i + 1];
        for (size_t k = 0; k < TSR_COUNT(options); k++)
            if (strcmp(argv[i], options[k].name) == 0)
                *options[k].value = strtoull(argv[i + 1], NULL, 10);
        shows = shows || strcmp(argv[i], "--show") == 0;
    }
    if (!folder || !corpus_each(folder, add_seed, &f.texts) || !f.texts.count)
        return fprintf(stderr, "stablehlo: --seeds names no folder of modules\n"), 6;
    f.shared =
        mmap(NULL, sizeof *f.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    f.file = memfd_create("input", MFD_CLOEXEC);
    TSR_ASSERT(f.shared != MAP_FAILED && f.file >= 0);
    snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.file);
    int code = shows ? show(&f, shown) : run_all(&f);
    seeds_finish(&f.texts);
    return code;
}
