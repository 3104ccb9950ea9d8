/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a generation's tensors into the caller's memory, from an open store or from a store that is
 * only read.
 */
#include "runtime/state/record.h"
#include "runtime/store/internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

/* ---- destinations of a state ---- */

uint64_t tsr_row_bytes(const tsr_tensor_row *row) {
    uint64_t size = 0;
    bool fits = tsr_shape_size(&row->shape, row->dtype, &size);
    TSR_ASSERT(fits);
    return size;
}

/* Both lists ascend by name, so the first difference is a missing or an extra tensor. */
static tsr_result match_tensors(tsr_ctx *ctx, const tsr_manifest *stored,
                                const tsr_manifest *wanted) {
    char a[TSR_TYPE_TEXT_MAX], b[TSR_TYPE_TEXT_MAX];
    for (uint32_t i = 0; i < stored->tensor_count || i < wanted->tensor_count; i++) {
        const tsr_tensor_row *have = i < stored->tensor_count ? &stored->tensors[i] : NULL;
        const tsr_tensor_row *want = i < wanted->tensor_count ? &wanted->tensors[i] : NULL;
        int order = !have ? 1 : !want ? -1 : strcmp(have->name, want->name);
        if (order < 0)
            FAIL(ctx, TSR_MISMATCH,
                 "the state has tensor '%s' (%s), which the program does not have", have->name,
                 tsr_type_format(have->dtype, &have->shape, a));
        if (order > 0)
            FAIL(ctx, TSR_MISMATCH,
                 "the program has tensor '%s' (%s), which the state does not have", want->name,
                 tsr_type_format(want->dtype, &want->shape, a));
        if (have->dtype != want->dtype || !tsr_shape_equal(&have->shape, &want->shape))
            FAIL(ctx, TSR_MISMATCH, "tensor '%s' is %s in the state; the program has %s",
                 have->name, tsr_type_format(have->dtype, &have->shape, a),
                 tsr_type_format(want->dtype, &want->shape, b));
    }
    return TSR_SUCCESS;
}

tsr_result tsr_find_destinations(tsr_ctx *ctx, const tsr_manifest *manifest,
                                 const tsr_tensor *tensors, size_t tensor_count,
                                 void **destinations) {
    tsr_arena arena = {0};
    tsr_manifest wanted;
    tsr_result result;
    const tsr_tensor **sorted = TSR_NEW(&arena, const tsr_tensor *, tensor_count + 1);
    if (!sorted) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for %zu tensors", tensor_count);
    TRY_GOTO(ctx, result,
             tsr_manifest_plan(ctx, &arena, tensors, tensor_count,
                               &(tsr_division){TSR_SEGMENT_BYTES_MAX, 1}, sorted, &wanted));
    TRY_GOTO(ctx, result, match_tensors(ctx, manifest, &wanted));
    for (size_t i = 0; i < tensor_count; i++) destinations[i] = sorted[i]->data;
done:
    tsr_arena_finish(&arena);
    return result;
}

/* ---- loading ---- */

/* Each of several ranks has read its part. */
static tsr_result load_part(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                            size_t tensor_count) {
    tsr_arena arena = {0};
    tsr_result result;
    void **destinations = TSR_NEW(&arena, void *, tensor_count + 1);
    if (!destinations)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for %zu tensors", tensor_count);
    /* If the state was not read at opening, the tensors do not match; rank 0 reports the
     * difference. */
    if (!store->landed && store->coordinator)
        TRY_GOTO(ctx, result,
                 tsr_find_destinations(ctx, &store->coordinator->recovered, tensors, tensor_count,
                                       destinations));
    if (!store->landed)
        FAIL_GOTO(ctx, result, TSR_RANK, "rank %" PRIu32 " has not read its part",
                  store->rank_number);
    TRY_GOTO(ctx, result, tsr_store_plan(ctx, store, tensors, tensor_count));
    result = tsr_store_hand_on(ctx, store);
    store->landed = NULL;
done:
    tsr_arena_finish(&arena);
    return result;
}

/* Works once: a second load reads from the disk. */
static void copy_landed(tsr_store *store, void *const *destinations) {
    const tsr_manifest *recovered = &store->coordinator->recovered;
    for (uint32_t i = 0; i < recovered->tensor_count; i++) {
        uint64_t size = tsr_row_bytes(&recovered->tensors[i]);
        if (size && destinations[i] != store->landed[i])
            memcpy(destinations[i], store->landed[i], (size_t)size);
    }
    store->landed = NULL;
}

static tsr_result load_alone(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                             size_t tensor_count) {
    tsr_arena arena = {0};
    tsr_result result;
    const tsr_coordinator *c = store->coordinator;
    const tsr_manifest *recovered = &c->recovered;
    const tsr_part all = {0, recovered->chunk_count};
    if (store->thread_started) tsr_store_wait(store); /* the thread uses the reader */
    void **destinations = TSR_NEW(&arena, void *, tensor_count + 1);
    if (!destinations)
        FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory for %zu tensors", tensor_count);
    TRY_GOTO(ctx, result,
             tsr_find_destinations(ctx, recovered, tensors, tensor_count, destinations));
    if (store->landed)
        copy_landed(store, destinations);
    else
        TRY_GOTO(ctx, result,
                 tsr_read_part(ctx, store->reader, c->directory.gens, recovered, all, destinations,
                               false));
done:
    tsr_arena_finish(&arena);
    return result;
}

static void tell_load(tsr_store *store) {
    const tsr_manifest *recovered = &store->coordinator->recovered;
    const tsr_link link = {recovered->token.generation, recovered->token.epoch, recovered->hash};
    char state[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&recovered->token.state_hash, state);
    tsr_event_more(&store->rank->events, "load", &link, NULL, "\"state\":\"%s\"", state);
}

tsr_result tsr_store_load(tsr_ctx *ctx, tsr_store *store, const tsr_tensor *tensors,
                          size_t tensor_count) {
    TSR_ASSERT(store->recovery.found);
    tsr_store_name_work(store, "state", store->recovery.generation.position.step);
    tsr_result result = store->transport ? load_part(ctx, store, tensors, tensor_count)
                                         : load_alone(ctx, store, tensors, tensor_count);
    if (result.code) return tsr_error_prefix(ctx, result, "state directory '%s'", store->directory);
    if (store->coordinator) tell_load(store);
    return TSR_SUCCESS;
}

/* ---- read-only use ---- */

typedef struct landing {
    tsr_arena *arena;
    tsr_tensor *tensors; /* tensors of the latest generation read */
    size_t count;
    tsr_token token; /* of that generation; in the arena */
} landing;

typedef struct attempt {
    tsr_store_scan scan;
    tsr_reader *reader; /* borrowed */
} attempt;

static tsr_result land_in_arena(tsr_ctx *ctx, landing *to, const tsr_manifest *manifest,
                                void ***out_destinations) {
    tsr_tensor *tensors = TSR_NEW(to->arena, tsr_tensor, manifest->tensor_count + 1);
    void **destinations = TSR_NEW(to->arena, void *, manifest->tensor_count + 1);
    if (!tensors || !destinations) FAIL(ctx, TSR_MEMORY, "no memory for the tensors");
    for (uint32_t i = 0; i < manifest->tensor_count; i++) {
        const tsr_tensor_row *row = &manifest->tensors[i];
        uint64_t size = tsr_row_bytes(row);
        destinations[i] = tsr_arena_alloc(to->arena, (size_t)size + 1, 1, 64);
        if (!destinations[i])
            FAIL(ctx, TSR_MEMORY, "no memory for the %" PRIu64 " bytes of tensor '%s'", size,
                 row->name);
        tensors[i] = (tsr_tensor){
            .name = row->name, .dtype = row->dtype, .shape = row->shape, .data = destinations[i]};
    }
    to->tensors = tensors;
    *out_destinations = destinations;
    return TSR_SUCCESS;
}

/* The bytes are copied to their destination before they are hashed. */
static tsr_result read_candidate(tsr_ctx *ctx, const attempt *a, const tsr_manifest *manifest,
                                 landing *to) {
    void **destinations = NULL;
    const tsr_part all = {0, manifest->chunk_count};
    TRY(ctx, tsr_read_sizes(ctx, a->scan.gens, manifest));
    tsr_result result = land_in_arena(ctx, to, manifest, &destinations);
    TSR_ASSERT(result.code != TSR_STATE);
    TRY(ctx, result);
    return tsr_read_part(ctx, a->reader, a->scan.gens, manifest, all, destinations, false);
}

static tsr_result read_once(tsr_ctx *ctx, attempt *a, const tsr_choice *choice, landing *to,
                            tsr_recovery *recovery) {
    tsr_store_scan *scan = &a->scan;
    tsr_manifest manifest = {0};
    TRY(ctx, tsr_store_scan_run(ctx, scan));
    for (size_t i = 0;; i++) {
        TRY(ctx, tsr_store_scan_next(ctx, scan, choice, &i, &manifest));
        recovery->found = i < scan->candidate_count;
        if (!recovery->found) break;
        tsr_result result = read_candidate(ctx, a, &manifest, to);
        if (!result.code) break;
        if (result.code != TSR_STATE) TRY(ctx, result);
        TRY(ctx, tsr_store_scan_note_damaged(ctx, scan, &scan->candidates[i]));
    }
    recovery->damaged_count = scan->damaged_count;
    recovery->uncommitted_count = (uint32_t)scan->unfinished.count;
    if (recovery->found) {
        if (scan->damaged_count)
            tsr_log(ctx, TSR_LOG_WARNING, "resuming from generation %" PRIu64 " at step %" PRIu64,
                    manifest.token.generation, manifest.token.position.step);
        to->count = manifest.tensor_count;
        to->token = manifest.token;
        recovery->generation = tsr_manifest_generation(&manifest);
    }
    return TSR_SUCCESS;
}

tsr_result tsr_store_read(tsr_ctx *ctx, const char *directory, const tsr_store_program *program,
                          tsr_resume_mode mode, uint64_t generation, tsr_arena *arena,
                          tsr_recovery *out_recovery, tsr_tensor **out_tensors,
                          size_t *out_tensor_count) {
    const tsr_io *io = tsr_ctx_io(ctx);
    landing to = {.arena = arena};
    tsr_store_program silently = program ? *program : (tsr_store_program){0};
    const tsr_choice choice = {
        .mode = mode, .generation = generation, .program = program ? &silently : NULL};
    tsr_store_scan scan = {.root = -1, .gens = -1, .arena = arena};
    tsr_reader *reader = tsr_reader_create();
    tsr_result result = TSR_SUCCESS;
    silently.tells_changes = false; /* told once, at the end */
    if (!reader) FAIL_GOTO(ctx, result, TSR_MEMORY, "no memory to read a state");
    scan.root = io->open(io->self, TSR_IO_CWD, directory, O_RDONLY | O_DIRECTORY, 0);
    if (scan.root < 0) {
        result = tsr_fail_(ctx, TSR_IO, -scan.root, __FILE__, __LINE__, "cannot open it");
        goto done;
    }
    scan.gens = io->open(io->self, scan.root, "gen", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    /* A run that removes old generations can make good generations vanish during this read: look
     * again before damage is reported. */
    tsr_ctx silent = tsr_ctx_fork(ctx);
    silent.log = NULL;
    tsr_ctx *with = &silent;
    for (uint64_t seen = UINT64_MAX;; with = ctx) {
        attempt again = {scan, reader};
        *out_recovery = (tsr_recovery){0};
        to.tensors = NULL;
        to.count = 0;
        result = read_once(with, &again, &choice, &to, out_recovery);
        bool damaged = result.code == TSR_STATE || (!result.code && out_recovery->damaged_count);
        if (!damaged || again.scan.highest_generation == seen) break;
        seen = again.scan.highest_generation;
    }
    if (result.code && with == &silent) result = tsr_error_adopt(ctx, &silent);
    if (!result.code) {
        *out_tensors = to.count ? to.tensors : NULL;
        *out_tensor_count = to.count;
        if (out_recovery->found) tsr_token_tell_changes(ctx, &to.token, program);
        if (program && program->recovered)
            *program->recovered = out_recovery->found ? to.token.identity : (tsr_identity){0};
    }
done:
    if (scan.gens >= 0) io->close(io->self, scan.gens);
    if (scan.root >= 0) io->close(io->self, scan.root);
    tsr_reader_destroy(reader);
    if (result.code) return tsr_error_prefix(ctx, result, "state directory '%s'", directory);
    return result;
}
