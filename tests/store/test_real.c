/* SPDX-License-Identifier: Apache-2.0
 *
 * The state store on the real file system: parents, a second process, kill -9.
 */
#include "tests/store/model.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct bench {
    tsr_ctx ctx;
    model m;
    tsr_store *store;
    tsr_recovery recovery;
} bench;

static bench *begin(void) {
    bench *b = calloc(1, sizeof *b);
    cr_assert(b);
    model_init(&b->m);
    return b;
}
static void end(bench *b) {
    tsr_store_close(&b->ctx, b->store);
    free(b);
}
static void must_load(bench *b, uint64_t step) {
    cr_assert(b->recovery.found);
    cr_assert_eq(b->recovery.generation.position.step, step);
    tsr_result result = tsr_store_load(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS);
    cr_assert_eq(result.code, TSR_OK, "%s", b->ctx.error.text);
    cr_assert(model_is(&b->m, step));
}
static void ignore_line(void *user, const char *line) {
    (void)user;
    (void)line;
}

static char *scratch(char path[static 64]) {
    snprintf(path, 64, "/tmp/tessera-store-XXXXXX");
    cr_assert(mkdtemp(path));
    return path;
}
static void remove_tree(const char *path) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    cr_assert_eq(system(command), 0);
}

Test(store_real, real_directory_with_parents) {
    char root[64], path[128];
    bench *b = begin();
    snprintf(path, sizeof path, "%s/a/b//c/", scratch(root));
    tsr_store_options options = model_options(path);
    for (uint64_t step = 1; step <= 8; step += 4) {
        tsr_result result =
            tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery);
        cr_assert_eq(result.code, TSR_OK, "%s", b->ctx.error.text);
        if (step > 1) must_load(b, step - 1);
        cr_assert_eq(tsr_store_reserve(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS).code,
                     TSR_OK);
        for (uint64_t i = 0; i < 4; i++) cr_assert(model_save(&b->ctx, b->store, &b->m, step + i));
        tsr_store_close(&b->ctx, b->store);
        b->store = NULL;
    }
    cr_assert_eq(tsr_store_fsck(&b->ctx, path, ignore_line, NULL).code, TSR_OK);
    remove_tree(root);
    end(b);
}

Test(store_real, second_process_is_refused) {
    char root[64], expected[64];
    int ready[2], done[2], state;
    bench *b = begin();
    tsr_store_options options = model_options(scratch(root));
    cr_assert(pipe(ready) == 0 && pipe(done) == 0);
    pid_t child = fork();
    if (child == 0) {
        char byte = 0;
        tsr_result result =
            tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery);
        byte = (char)result.code;
        if (write(ready[1], &byte, 1) != 1 || read(done[0], &byte, 1) != 1) _exit(1);
        _exit(0); /* as if killed: no file is closed */
    }
    char byte = 1;
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    cr_assert_eq(byte, TSR_OK);
    snprintf(expected, sizeof expected, "process %ld on ", (long)child);
    cr_assert_eq(
        tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery).code,
        TSR_LOCKED);
    cr_assert(strstr(b->ctx.error.text, expected), "%s", b->ctx.error.text);
    cr_assert_eq(write(done[1], "x", 1), 1);
    cr_assert_eq(waitpid(child, &state, 0), child);
    cr_assert_eq(state, 0);
    cr_assert_eq(
        tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery).code, TSR_OK,
        "%s", b->ctx.error.text);
    tsr_store_close(&b->ctx, b->store);
    b->store = NULL;
    remove_tree(root);
    end(b);
}

Test(store_real, killed_while_saving) {
    char root[64];
    bench *b = begin();
    tsr_store_options options = model_options(scratch(root));
    uint64_t last = 0;
    for (int round = 0; round < 12; round++) {
        int acknowledged[2], state;
        cr_assert_eq(pipe(acknowledged), 0);
        pid_t child = fork();
        if (child == 0) {
            if (tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery).code)
                _exit(1);
            uint64_t step = b->recovery.found ? b->recovery.generation.position.step : 0;
            if (tsr_store_reserve(&b->ctx, b->store, b->m.tensors, MODEL_TENSORS).code) _exit(1);
            while (model_save(&b->ctx, b->store, &b->m, ++step))
                if (write(acknowledged[1], &step, sizeof step) != sizeof step) _exit(1);
            _exit(1);
        }
        close(acknowledged[1]);
        for (int i = 0; i < 3; i++)
            cr_assert_eq(read(acknowledged[0], &last, sizeof last), sizeof last);
        usleep((useconds_t)(round * 1300));
        kill(child, SIGKILL);
        cr_assert_eq(waitpid(child, &state, 0), child);
        while (read(acknowledged[0], &last, sizeof last) == sizeof last) continue;
        close(acknowledged[0]);
        tsr_result result =
            tsr_store_open(&b->ctx, &options, TSR_RESUME_AUTO, 0, &b->store, &b->recovery);
        cr_assert_eq(result.code, TSR_OK, "%s", b->ctx.error.text);
        cr_assert_eq(b->recovery.damaged_count, 0);
        cr_assert_geq(b->recovery.generation.position.step, last);
        cr_assert_leq(b->recovery.generation.position.step, last + 1);
        must_load(b, b->recovery.generation.position.step);
        tsr_store_close(&b->ctx, b->store);
        b->store = NULL;
    }
    remove_tree(root);
    end(b);
}

/* ---- a state that is large enough for threads ---- */

enum { LARGE_TENSORS = 4, LARGE_BYTES = 48 << 20 };

/* The lengths are chosen so that no tensor after the first begins at a whole block. */
static void divide_large(uint8_t *memory, size_t skip, tsr_tensor tensors[static LARGE_TENSORS]) {
    static const char *const names[] = {"a", "b", "c", "d"};
    static const uint64_t sizes[] = {(13 << 20) + 5, 77, (9 << 20) + 4096, 4 << 20};
    for (size_t i = 0; i < LARGE_TENSORS; i++) {
        tensors[i] = (tsr_tensor){names[i], TSR_DTYPE_UI8, {1, {sizes[i]}}, memory + skip};
        skip += sizes[i] + 64 - sizes[i] % 64;
    }
}

static void fill_large(const tsr_tensor *tensors, uint64_t seed) {
    for (size_t i = 0; i < LARGE_TENSORS; i++)
        for (uint64_t k = 0; k < tensors[i].shape.dims[0]; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            ((uint8_t *)tensors[i].data)[k] = (uint8_t)(seed >> 56);
        }
}

/* Loads with large pages, if the system has them, and without; into fresh memory, and into memory
 * that was touched before. */
Test(store_real, a_large_state_lands_where_it_will_be_used) {
    for (int large = 0; large <= 1; large++)
        for (int way = 0; way < 4; way++) {
            char root[64];
            tsr_ctx ctx = {0};
            tsr_store *store = NULL;
            tsr_recovery recovery;
            tsr_tensor saved[LARGE_TENSORS], landed[LARGE_TENSORS];
            const tsr_position position = {.step = 1, .virtual_ranks = 1};
            uint8_t *from = calloc(1, LARGE_BYTES);
            uint8_t *to =
                mmap(NULL, LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            cr_assert(from && to != MAP_FAILED);
            (void)madvise(to, LARGE_BYTES, large ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
            if (way & 1) memset(to, 0x5a, LARGE_BYTES);
            divide_large(from, 0, saved);
            divide_large(to, way & 2 ? 24 : 0, landed);
            fill_large(saved, (uint64_t)way + 1);
            tsr_store_options options = {.size_bytes = sizeof options,
                                         .directory = scratch(root),
                                         .keep = 2,
                                         .region = "train",
                                         .tensors = landed,
                                         .tensor_count = LARGE_TENSORS};
            for (int life = 0; life < 2; life++) {
                tsr_result result =
                    tsr_store_open(&ctx, &options, TSR_RESUME_AUTO, 0, &store, &recovery);
                cr_assert_eq(result.code, TSR_OK, "%s", ctx.error.text);
                if (!life) {
                    cr_assert_eq(tsr_store_reserve(&ctx, store, saved, LARGE_TENSORS).code, TSR_OK);
                    cr_assert_eq(tsr_store_save(&ctx, store, &position).code, TSR_OK);
                    cr_assert_eq(tsr_store_wait(store).committed_count, 1);
                } else
                    cr_assert_eq(tsr_store_load(&ctx, store, landed, LARGE_TENSORS).code, TSR_OK);
                tsr_store_close(&ctx, store);
            }
            for (size_t i = 0; i < LARGE_TENSORS; i++)
                cr_assert_eq(memcmp(saved[i].data, landed[i].data, saved[i].shape.dims[0]), 0,
                             "tensor '%s', large %d, way %d", saved[i].name, large, way);
            remove_tree(root);
            munmap(to, LARGE_BYTES);
            free(from);
        }
}
